# Only other extension modules use this module: see gather.pxd.
from typing import final

@final
class Gathered: ...
