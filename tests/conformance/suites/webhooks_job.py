"""Defaults and validation of batch/v1 Jobs; errors are compared whole, in any order.

They run with the placement profile Compatible: with Exact, our default, placement groups may be larger than Kueue's.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from admission.engine.model import PlacementOptions, Profile
from admission.feature_gates import FeatureGates, gate_name
from admission.webhook.kinds.job import JOB
from admission.webhook.rules.defaults import set_defaults
from admission.webhook.rules.fields import Errors
from admission.webhook.rules.jobs import ReviewedKind, validate_create, validate_update
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.admission_checks import AdmissionCheck
from api.meta import KubeObject
from api.queues import ClusterQueue, LocalQueue
from tests.conformance import runner
from tests.conformance.suites.topology_request_from_annotations import wire

T = TypeVar("T", bound=KubeObject)
MPI_JOB = ("kubeflow.org", "MPIJob")


def run(case: dict[str, Any]) -> None:
    """TestDefault compares the object, the two others the errors."""
    given, rules = case["input"], rules_of(case)
    if case["name"].startswith("TestDefault/"):
        assert defaulted(given["job"], JOB, given, rules) == case["want"]["want"]
    else:
        assert_errors(judged(given, JOB, rules), case["want"]["wantValidationErrs"])


def rules_of(case: dict[str, Any]) -> ReviewRules:
    """Kueue's behaviour under the case's gates."""
    gates = runner.gates(case)
    return ReviewRules(
        gates=FeatureGates(**{gate: gates[gate] for gate in map(gate_name, FeatureGates.model_fields)}),
        placement=PlacementOptions(multi_layer=gates["TASMultiLayerTopology"], profile=Profile.COMPATIBLE),
        manage_jobs_without_queue_name=case["input"].get("manageJobsWithoutQueueName", False),
        managed_namespaces=None,
        managed_owners=frozenset((MPI_JOB,)),
    )


def lookups_of(value: dict[str, Any]) -> Lookups:
    """The objects that exist in the case."""
    queues = [LocalQueue.from_wire(one) for one in value.get("queues") or ()]
    if value.get("defaultLqExist"):
        spec = {"clusterQueue": "cluster-queue"}
        queues.append(LocalQueue.from_wire({"metadata": {"name": "default", "namespace": "default"}, "spec": spec}))
    checks = [AdmissionCheck.from_wire(value["admissionCheck"])] if value.get("admissionCheck") else []
    cluster_queues = [ClusterQueue.from_wire(one) for one in value.get("clusterQueues") or ()]
    return Lookups(_keyed(queues), _keyed(cluster_queues), admission_checks=_keyed(checks))


def _keyed(objects: list[T]) -> dict[str, T]:
    return {one.key: one for one in objects}


def defaulted(job: dict[str, Any], kind: ReviewedKind, value: dict[str, Any], rules: ReviewRules) -> dict[str, Any]:
    """The job after the defaults of its creation."""
    changed = copy.deepcopy(job)
    set_defaults(changed, job["metadata"]["namespace"], kind, lookups_of(value), rules)
    return changed


def judged(value: dict[str, Any], kind: ReviewedKind, rules: ReviewRules) -> Errors:
    """The errors of the creation or change in the case."""
    if "job" in value:
        return validate_create(value["job"], kind, rules)
    return validate_update(value["oldJob"], value["newJob"], kind, rules)


def assert_errors(errors: Errors, want: list[dict[str, Any]] | None) -> None:
    """The same errors, in any order."""
    found = wire(errors)
    assert sorted(e["message"] for e in found) == sorted(e["message"] for e in want or ())
    assert all(e in found for e in want or ())
