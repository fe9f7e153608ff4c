"""Tables in segments of time, of window and session stores."""

from kstore_core.segments.prefixes import PrefixedSegments
from kstore_core.segments.table import Segment, SegmentedTable, SegmentScan

__all__ = ["PrefixedSegments", "Segment", "SegmentScan", "SegmentedTable"]
