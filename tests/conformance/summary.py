"""One line a suite at the end of the session: `conformance SUITE: PASSED/ALL` (a skipped case counts in ALL).

tests/conftest.py imports the hook: of several processes only the one that prints needs it, and that loads no other conftest.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance import runner

SUITE = "conformance-suite"


def _suite_of(report: object) -> str | None:
    properties = getattr(report, "user_properties", ())
    return next((str(value) for name, value in properties if name == SUITE), None)


def _seen(terminalreporter: pytest.TerminalReporter, outcome: str) -> Counter[str]:
    found = (_suite_of(report) for report in terminalreporter.stats.get(outcome, ()))
    return Counter(suite for suite in found if suite)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the line of each suite of which at least one case ran or was skipped."""
    passed = _seen(terminalreporter, "passed") + _seen(terminalreporter, "xpassed")
    ran = sum((_seen(terminalreporter, outcome) for outcome in ("failed", "skipped", "xfailed")), passed)
    for suite in sorted(ran):
        terminalreporter.write_line(f"conformance {suite}: {passed[suite]}/{len(runner.suites()[suite])}")
