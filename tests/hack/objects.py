"""Objects of every kind, in as few words as they need. In taken.py stands what must be taken, in refused.py what not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

Obj = dict[str, Any]
Edit = Callable[[Obj], Obj]

HOST = "kubernetes.io/hostname"
RACK = "example.com/rack"
BLOCK = "example.com/block"


def make(kind: str, name: str, namespace: str = "", **fields: Any) -> Obj:
    """An object of our group, unless another is given."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **fields}


def elastic_quota(group: str = "scheduling.x-k8s.io", **spec: Any) -> Obj:
    return make("ElasticQuota", "quota", "default", spec=spec) | {"apiVersion": f"{group}/v1alpha1"}


def pod_group(group: str = "scheduling.x-k8s.io", **spec: Any) -> Obj:
    return make("PodGroup", "gang", "default", spec=spec) | {"apiVersion": f"{group}/v1alpha1"}


def topology(*levels: str, name: str = "tree") -> Obj:
    return make("Topology", name, spec={"levels": [{"nodeLabel": level} for level in levels]})


def flavor(**spec: Any) -> Obj:
    return make("ResourceFlavor", "flavor", spec=spec)


def quota(resource: str = "cpu", **limits: Any) -> Obj:
    return {"name": resource, "nominalQuota": 4, **limits}


def group(*resources: Obj, covered: tuple[str, ...] = ("cpu",)) -> Obj:
    return {"coveredResources": list(covered), "flavors": [{"name": "default", "resources": list(resources)}]}


def cluster_queue(name: str = "cq", **spec: Any) -> Obj:
    return make("ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group(quota())], **spec})


def pod_set(name: str = "main", **fields: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"name": name, "count": 3, "template": template, **fields}


def workload(name: str = "job", *pod_sets: Obj, **spec: Any) -> Obj:
    sets = list(pod_sets) or [pod_set()]
    return make("Workload", name, "default", spec={"queueName": "queue", "podSets": sets, **spec})


def condition(kind: str, status: str = "True") -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


SLICE = {
    "domainCount": 2,
    "valuesPerLevel": [{"individual": {"prefix": "n-", "roots": ["1", "2"]}}],
    "podCounts": {"individual": [1, 2]},
}


def assigned(*slices: Obj, levels: tuple[str, ...] = (HOST,)) -> Obj:
    assignment = {"levels": list(levels), "slices": list(slices)}
    return {
        "name": "main",
        "count": 3,
        "flavors": {"cpu": "default"},
        "resourceUsage": {"cpu": "3"},
        "topologyAssignment": assignment,
    }


def reserved_workload(name: str = "job", *assignments: Obj, admitted: bool = False, **spec: Any) -> Obj:
    given = list(assignments) or [assigned(SLICE)]
    conditions = [condition("QuotaReserved")] + ([condition("Admitted")] if admitted else [])
    status = {"conditions": conditions, "admission": {"clusterQueue": "cq", "podSetAssignments": given}}
    return workload(name, **spec) | {"status": status}


def merged(base: Any, change: Any) -> Any:
    """A JSON merge patch; None removes."""
    if not isinstance(change, Mapping):
        return deepcopy(change)
    kept = {k: v for k, v in base.items() if k not in change} if isinstance(base, Mapping) else {}
    put = {k: merged(base.get(k) if isinstance(base, Mapping) else None, v) for k, v in change.items() if v is not None}
    return deepcopy(kept) | put


def edit(**change: Any) -> Edit:
    """An update as a merge patch."""

    def apply(obj: Obj) -> Obj:
        result: Obj = merged(obj, change)
        return result

    return apply


def contains(whole: Any, part: Any) -> bool:
    """Whether everything in `part` is in `whole`, at the same place."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(k in whole and contains(whole[k], v) for k, v in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(contains(w, p) for w, p in zip(whole, part, strict=True))
    return bool(whole == part)


GATED = {"migration": {"mode": "TryPreferredFlavors", "constraints": {"lastAcceptableFlavorName": "default"}}}
WORKLOAD_CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
