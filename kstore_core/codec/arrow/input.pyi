# Only other extension modules use this module: see input.pxd.
from typing import final

@final
class Column: ...
