"""`python -m hack.repeat PYTEST-OPTIONS`: runs pytest, then each test that failed once more, alone, in a process of its own.

A test that passes then was disturbed, by other tests or by the machine's load. It is named under `flaky:` with its first error,
and the run does not fail for it. A test that fails twice fails. Nothing is repeated where more than `MOST` tests fail, where a
file cannot be collected, or where a process of pytest ended and named no test: such a run is broken, and fails.

The last line counts the tests, like the last line of pytest. The file that $STOWAGE_FLAKY names has the flaky tests of earlier
runs: the list names them too. The options are those of pytest, without paths, since a repetition adds the name of its test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

LIST: Final = "STOWAGE_FLAKY"
MOST: Final = 10
"""So many tests are repeated."""
_ALONE: Final = ("-n", "0", "--dist", "no", "--durations", "0")
_LONGEST_ERROR: Final = 300


class Outcomes:
    """What a run of pytest reported, as a plugin of the process that prints."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.errors: dict[str, str] = {}
        """The first error of each test that failed."""
        self.other: dict[str, int] = {}
        """Tests by outcomes that are no failure: skipped, deselected, xfailed."""
        self.unnamed: list[str] = []
        """Failures that belong to no test."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.errors.setdefault(report.nodeid, first_error(report))
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.unnamed.append(f"{report.nodeid} cannot be collected")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        if error:
            self.unnamed.append("a worker crashed between two tests")

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self) -> None:
        """xdist calls it after `pytest_testnodedown` where the worker crashed in a test, which is then reported as failed."""
        self.unnamed.pop()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        stats = terminalreporter.stats
        self.other = {name: len(stats[name]) for name in ("skipped", "deselected", "xfailed") if stats.get(name)}


def first_error(report: pytest.TestReport) -> str:
    """The error in one line, with its place if there is one."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (report.longreprtext if crash is None else crash.message).splitlines()
    text = textwrap.shorten(" ".join(lines), _LONGEST_ERROR, placeholder=" ...")
    return text if crash is None else f"{text} ({os.path.relpath(crash.path)}:{crash.lineno})"


def obstacle(code: int, outcomes: Outcomes) -> str | None:
    """Why nothing is repeated after a run that ended with `code`, or None."""
    if outcomes.unnamed:
        return "; ".join(outcomes.unnamed)
    if code != pytest.ExitCode.TESTS_FAILED or not outcomes.errors:
        return f"pytest ended with {code}"
    if len(outcomes.errors) > MOST:
        return f"{len(outcomes.errors)} tests failed, and {MOST} at most are repeated"
    return None


def fails_alone(test: str, options: Sequence[str]) -> bool:
    """Runs the test in a process of its own; prints what pytest says, indented, if it fails again."""
    print(f"repeating {test}", flush=True)
    command = [sys.executable, "-m", "pytest", *options, *_ALONE, test]
    repetition = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False
    )
    if repetition.returncode:
        print(textwrap.indent(repetition.stdout, "  | "), flush=True)
    return repetition.returncode != pytest.ExitCode.OK


def noted(flaky: Iterable[str]) -> list[str]:
    """The flaky tests of earlier runs of $STOWAGE_FLAKY, and these, which are added to it."""
    name = os.environ.get(LIST)
    if not name:
        return list(flaky)
    with Path(name).open("a+", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in flaky)
        file.seek(0)
        return file.read().splitlines()


def main(options: Sequence[str]) -> int:
    """The exit code: that of pytest, or 0 if every test that failed passes alone."""
    begin = time.monotonic()
    outcomes = Outcomes()
    code = int(pytest.main([*options], plugins=[outcomes]))
    sys.stdout.flush()
    failed, flaky, why = list(outcomes.errors), list[str](), None
    if code or outcomes.unnamed:
        code = code or pytest.ExitCode.TESTS_FAILED
        why = obstacle(code, outcomes)
        if why is None:
            failed = [test for test in outcomes.errors if fails_alone(test, options)]
            flaky = [f"  {test}: {error}" for test, error in outcomes.errors.items() if test not in failed]
            code = pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK
    lines = noted(flaky)
    if why:
        print(f"nothing is repeated: {why}")
    if lines:
        print("flaky:", *lines, sep="\n")
    if lines or why or outcomes.errors:
        counts = {
            "passed": len(outcomes.passed - set(failed) | set(outcomes.errors) - set(failed)),
            "failed": len(failed),
        }
        words = ", ".join(f"{count} {outcome}" for outcome, count in (counts | outcomes.other).items())
        print(f"{words} in {time.monotonic() - begin:.2f}s", flush=True)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
