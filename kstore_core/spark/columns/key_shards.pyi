from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["put_shards"]

def put_shards(keys: Any, shards: int, out: npt.NDArray[np.int32]) -> None: ...
