"""Functions that serialise and deserialise Arrow columns of keys and values.

The functions need pyarrow (``pip install 'pyarrow>=18'``), and import it when they are called.
"""

from kstore_core.arrow.columns import (
    HEADERS_FIELDS,
    check_json,
    from_values,
    headers_type,
    to_binary,
    to_typed,
    to_values,
)

__all__ = [
    "HEADERS_FIELDS",
    "check_json",
    "from_values",
    "headers_type",
    "to_binary",
    "to_typed",
    "to_values",
]
