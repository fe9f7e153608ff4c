"""The classes of record headers (KIP-82): a `Header` is a pair, and `Headers` is a sequence."""

from __future__ import annotations

from kstore_core.codec.headers.header import Header
from kstore_core.codec.headers.headers import Headers
from kstore_core.errors import ReadOnlyHeadersError

__all__ = ["Header", "Headers", "ReadOnlyHeadersError"]
