"""reconciler_jobset: one reconcile of a JobSet without a Workload. Kueue compares less than it shows: `observed` is
compared here (the wanted templates are stand-ins, and labels and finalizers are left out of the wanted Workloads)."""

from __future__ import annotations

from typing import Any

from admission.integrations.jobset import JobSet
from tests.conformance.suites.normal import normal
from tests.conformance.suites.reconciler_job import JobReconciliation, shown, shown_job


def run(case: dict[str, Any]) -> None:
    """Compare JobSet, Workloads and events with what Kueue did."""
    world = JobReconciliation(case, JobSet())
    world.reconcile()
    seen = case["observed"]
    assert world.job is not None
    assert shown_job(world.job) == shown_job(seen["jobSet"])
    assert normal(world.events) == normal(seen["events"])
    assert shown(world.workloads) == shown(seen["workloads"])
    assert [w["metadata"]["name"] for w in world.workloads] == [w["metadata"]["name"] for w in seen["workloads"]]
