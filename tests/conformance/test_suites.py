"""Every case of every suite file, one test each; a suite without a handler yet is listed as skipped, case by case."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.conformance import runner
from tests.conformance.summary import SUITE

CASES = [
    pytest.param(suite, case, id=f"{suite}:{case.name}") for suite, cases in runner.suites().items() for case in cases
]


SUITES = frozenset(
    (
        "admission_checks", "config_validation", "elastic_slices", "elastic_tas", "flavorassigner", "node_failure",
        "podsets_from_jobs", "preemption", "reconciler_job", "reconciler_jobset", "reconciler_pod", "reconciler_workload",
        "scheduler_more", "scheduler_quota", "scheduler_tas", "tas_find_topology_assignments", "tas_random_placements",
        "topology_assignment_encoding", "topology_request_from_annotations", "topology_ungater", "webhooks_job",
        "webhooks_jobset", "webhooks_kueue", "webhooks_pod", "workload_names",
    )
)  # fmt: skip


def test_suite_files_are_there() -> None:
    """Without the folder a developer's run skips; in CI (`.ci/run` sets CI) that is a failure, as is a suite that is gone."""
    if not runner.folder().is_dir():
        said = "no suite files: the folder of $STOWAGE_CONFORMANCE (default ../shared/conformance) is absent"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    assert runner.suites().keys() >= SUITES
    assert (runner.folder() / "next").is_dir()


@pytest.mark.parametrize(("suite", "case"), CASES)
def test_case(suite: str, case: runner.StoredCase, record_property: Callable[[str, object], None]) -> None:
    record_property(SUITE, suite)
    if not runner.run(suite, case.read()):
        pytest.skip(f"not supported yet: suite {suite} has no handler")
