"""podsets_from_jobs: a job in, the pod sets of its Workload out. Plain pods are a kind of their own, not there yet."""

from __future__ import annotations

from typing import Any

import pytest

from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from tests.conformance import runner
from tests.conformance.suites.normal import normal


def run(case: dict[str, Any]) -> None:
    """Compare whole pod sets; empty maps and absent ones are the same."""
    job = case["input"]
    topology = runner.gates(case)["TopologyAwareScheduling"]
    if "pod" in job:
        pytest.skip("not supported yet: plain pods as jobs")
    built = (
        JobSet().pod_sets(job["jobSet"], topology=topology)
        if "jobSet" in job
        else BatchJob().pod_sets(job["job"], topology=topology)
    )
    wanted = case["want"].get("wantPodSets") or case["observed"]["podSets"]
    assert normal([pod_set.to_wire() for pod_set in built]) == normal(wanted)
