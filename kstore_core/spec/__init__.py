"""Specs, which are immutable descriptions of stores. They can be pickled, and stored with data."""

from kstore_core.spec.describing import SPEC_VERSION, Shape
from kstore_core.spec.names import check_name, is_name
from kstore_core.spec.store_spec import StoreSpec
from kstore_core.spec.stored_spec import StoredSpec

__all__ = ["SPEC_VERSION", "Shape", "StoreSpec", "StoredSpec", "check_name", "is_name"]
