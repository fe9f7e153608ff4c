from collections.abc import Callable
from typing import Self, final

@final
class Prefix:
    def __new__(cls, prefix: bytes, least_bytes: int = 0, index_at: int = -1) -> Self: ...
    def behind(self, size: int) -> Prefix: ...
    def __call__(self, key: bytes, value: bytes) -> bytes: ...

plain_to_timestamped: Prefix
plain_to_headers: Prefix
timestamped_to_headers: Prefix
plain_to_session_headers: Prefix
ordered_timestamped_to_headers: Prefix
ordered_plain_to_session_headers: Prefix

def versioned_to_headers(key: bytes, value: bytes) -> bytes: ...
def convert_rows(
    convert: Callable[[bytes, bytes], bytes], keys: list[bytes], values: list[bytes]
) -> list[bytes]: ...
