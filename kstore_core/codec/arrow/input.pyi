# Only for other extension modules: see arrow_in.pxd.
from typing import final

@final
class Column: ...
