"""Record headers (KIP-82): the pair `Header`, and the list `Headers`, decoded at first access."""

from __future__ import annotations

from kstore_core.codec.headers.header import Header
from kstore_core.codec.headers.headers import Headers
from kstore_core.errors import ReadOnlyHeadersError

__all__ = ["Header", "Headers", "ReadOnlyHeadersError"]
