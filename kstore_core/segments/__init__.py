"""Tables in segments of time, of window and session stores."""

from kstore_core.segments.indexed import IndexedTable
from kstore_core.segments.prefixes import PrefixedSegments
from kstore_core.segments.scan import SegmentScan
from kstore_core.segments.segment import Segment
from kstore_core.segments.table import SegmentedTable

__all__ = ["IndexedTable", "PrefixedSegments", "Segment", "SegmentScan", "SegmentedTable"]
