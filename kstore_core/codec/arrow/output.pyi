# Only other extension modules use this module: see output.pxd.
from typing import final

@final
class Exported:
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...
