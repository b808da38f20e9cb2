"""webhooks_pod: defaults and validation of plain pods, and their roles.

TestDefault: owners are not looked up here (a review never waits): a pod is its job's by the kind of its controller alone.
The other tests compare error types and fields, as Kueue's do; where the suite shows the full texts, those too.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.integrations.pods.pod import QueuedPodReader
from admission.webhook.kinds.pod import set_defaults, validate_create, validate_update, warnings
from admission.webhook.rules.fields import Errors
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import GroupKind, ReviewRules
from api.pod.labels import matches
from api.queues import LocalQueue, WorkloadPriorityClass
from tests.conformance.suites.topology_request_from_annotations import wire
from tests.conformance.suites.webhooks_job import rules_of

KINDS: dict[str, GroupKind] = {
    "kubeflow.org/mpijob": ("kubeflow.org", "MPIJob"),
    "kubeflow.org/paddlejob": ("kubeflow.org", "PaddleJob"),
    "kubeflow.org/pytorchjob": ("kubeflow.org", "PyTorchJob"),
    "kubeflow.org/tfjob": ("kubeflow.org", "TFJob"),
    "kubeflow.org/xgboostjob": ("kubeflow.org", "XGBoostJob"),
    "ray.io/raycluster": ("ray.io", "RayCluster"),
}

SKIPPED = {
    "missing parent while not terminating": "owners are not looked up: a pod of a Job is left to its Job in any case",
    "(Job) while not enabled": "not built (README, Not implemented): kinds cannot be left out, Jobs are always managed",
    "doesn't match the pod selector": "not supported: podOptions.podSelector (deprecated there; a namespace selector decides)",
}


def run(case: dict[str, Any]) -> None:
    """TestDefault compares the pod, TestValidate... the errors and warnings, TestGetRoleHash the hashes."""
    for part, reason in SKIPPED.items():
        if part in case["name"]:
            pytest.skip(reason)
    case = _with_empty_requests(case)
    given, want = case["input"], case["want"]
    rules = replace(rules_of(case), managed_owners=_owners(given))
    if case["name"].startswith("TestDefault/"):
        assert _defaulted(given, rules) == want["want"]
    elif case["name"].startswith("TestGetRoleHash/"):
        hashes = [QueuedPodReader()(msgspec.json.encode(pod)).role for pod in given["pods"]]
        assert (len(set(hashes)) == 1) is want["wantEqualHash"]
        assert hashes == case["observed"]["hashes"]
    elif "pod" in given:
        _assert_errors(case, validate_create(given["pod"], rules))
        assert warnings(given["pod"], rules) == (want.get("wantWarns") or [])
    else:
        _assert_errors(case, validate_update(given["oldPod"], given["newPod"], rules))
        assert warnings(given["newPod"], rules) == (want.get("wantWarns") or [])


def _with_empty_requests(part: Any) -> Any:
    """The part of a case with what Kueue's tests have in memory: containers with an empty map of requests.

    It is hashed as one, but left out of JSON. Pods from an API server have none then, which is hashed as null.
    """
    if isinstance(part, list):
        return [_with_empty_requests(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: {"requests": {}} if (key, each) == ("resources", {}) else _with_empty_requests(each)
        for key, each in part.items()
    }


def _owners(value: dict[str, Any]) -> frozenset[GroupKind]:
    return frozenset(KINDS[name] for name in value.get("enableIntegrations") or () if name in KINDS)


def _defaulted(value: dict[str, Any], rules: ReviewRules) -> dict[str, Any]:
    labels = {
        one["metadata"]["name"]: one["metadata"].get("labels", {})
        for one in value["initObjects"]
        if one["kind"] == "Namespace"
    }
    pod: dict[str, Any] = copy.deepcopy(value["pod"])
    namespace = pod["metadata"]["namespace"]
    spec = {"clusterQueue": "cluster-queue"}
    default = LocalQueue.from_wire({"metadata": {"name": "default", "namespace": namespace}, "spec": spec})
    queues = {default.key: default} if value.get("defaultLqExist") else {}
    selector = value.get("namespaceSelector")
    if value.get("managedJobsNamespaceSelector"):  # of the form `key notin (value)`
        key, _, values = value["managedJobsNamespaceSelector"].partition(" notin ")
        selector = {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [values.strip("()")]}]}
    if selector is None or matches(selector, labels[namespace]):
        manage = value.get("manageJobsWithoutQueueName", False)
        rules = replace(rules, manage_jobs_without_queue_name=manage)
        classes = [one for one in value["initObjects"] if one["kind"] == "WorkloadPriorityClass"]
        known = {one["metadata"]["name"]: WorkloadPriorityClass.from_wire(one) for one in classes}
        set_defaults(pod, namespace, Lookups(local_queues=queues, workload_priority_classes=known), rules)
    return pod


def _assert_errors(case: dict[str, Any], errors: Errors) -> None:
    found, want = wire(errors), case["want"]["wantErr"]
    wanted = want["errors"] if want else []
    assert sorted((e["type"], e["field"]) for e in found) == sorted((e["type"], e["field"]) for e in wanted)
    shown = ((case.get("observed") or {}).get("err") or {}).get("errors") or []
    assert sorted(e["message"] for e in found) == sorted(e["message"] for e in shown)
