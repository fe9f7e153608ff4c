"""The tables of window and session stores, whose rows are divided into segments of time."""

from kstore_core.tables.segments.indexed import IndexedTable
from kstore_core.tables.segments.prefixes import PrefixedSegments
from kstore_core.tables.segments.scan import SegmentScan
from kstore_core.tables.segments.segment import Segment
from kstore_core.tables.segments.table import SegmentedTable

__all__ = ["IndexedTable", "PrefixedSegments", "Segment", "SegmentScan", "SegmentedTable"]
