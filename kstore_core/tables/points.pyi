__all__ = ["PointTable"]

class PointTable:
    @property
    def points(self) -> PointTable: ...
