"""A pytest plugin that prints the slowest test files at the end of a run, also with xdist."""

from __future__ import annotations

from collections import defaultdict

import pytest

__all__ = ["SlowestFiles"]

_SHOWN = 30
_LEAST_S = 1.0


class SlowestFiles:
    """Seconds by file: setup, call and teardown of its tests, in whichever process they ran."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        slowest = sorted(self._seconds.items(), key=lambda pair: -pair[1])[:_SHOWN]
        slow = [pair for pair in slowest if pair[1] >= _LEAST_S]
        if slow:
            total = sum(self._seconds.values())
            terminalreporter.section(f"slowest {len(slow)} files of {total:.0f} s")
            for file, seconds in slow:
                terminalreporter.write_line(f"{seconds:7.1f} s  {file}")
