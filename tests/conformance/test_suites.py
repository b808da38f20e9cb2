"""Every case of every suite file, one test each; a suite without a handler yet is listed as skipped, case by case."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from _pytest.mark.structures import ParameterSet

from tests.conformance import runner
from tests.conformance.conftest import SUITE
from tests.conformance.pending import PENDING


def _case(suite: str, case: runner.Case) -> ParameterSet:
    name = f"{suite}:{case['name']}"
    missing = PENDING.get(name)
    return pytest.param(suite, case, id=name, marks=[] if missing is None else [pytest.mark.xfail(reason=missing)])


CASES = [_case(suite, case) for suite, cases in runner.suites().items() for case in cases]


def test_suite_files_are_there() -> None:
    if not runner.folder().is_dir():
        pytest.skip("no suite files: the folder of $STOWAGE_CONFORMANCE (default ../shared/conformance) is absent")
    assert CASES


@pytest.mark.parametrize(("suite", "case"), CASES)
def test_case(suite: str, case: runner.Case, record_property: Callable[[str, object], None]) -> None:
    record_property(SUITE, suite)
    if not runner.run(suite, case):
        pytest.skip(f"not supported yet: suite {suite} has no handler")
