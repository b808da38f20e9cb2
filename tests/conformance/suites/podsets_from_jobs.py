"""podsets_from_jobs: a job or a plain pod in, the pod sets of its Workload out."""

from __future__ import annotations

from typing import Any

import msgspec

from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from admission.integrations.pods.pod import QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit
from api import names
from api.workloads import PodSet
from tests.conformance import runner
from tests.conformance.suites.normal import normal


def run(case: dict[str, Any]) -> None:
    """Compare whole pod sets; empty maps and absent ones are the same."""
    job = case["input"]
    topology = runner.gates(case)["TopologyAwareScheduling"]
    built = _built(job, topology)
    wanted = case["want"].get("wantPodSets") or case["observed"]["podSets"]
    assert normal([pod_set.to_wire() for pod_set in built]) == normal(wanted)


def _built(job: dict[str, Any], topology: bool) -> tuple[PodSet, ...]:
    if "jobSet" in job:
        return JobSet().pod_sets(job["jobSet"], topology=topology)
    if "job" in job:
        return BatchJob().pod_sets(job["job"], topology=topology)
    # The suite's pods have not been through the webhook; of a pod without our gate nothing is composed.
    gate = {"name": names.ADMISSION_GATE}
    pod = {**job["pod"], "spec": {**job["pod"]["spec"], "schedulingGates": [gate]}}
    (built,) = PodUnit.of([QueuedPodReader()(msgspec.json.encode(pod))]).pod_sets(topology=topology)
    template = {"metadata": {}, "spec": {k: v for k, v in built.template["spec"].items() if k != "schedulingGates"}}
    return (built.model_copy(update={"template": template}),)
