"""Computes the pod sets of a TrainJob from its TrainingRuntime and the job's own trainer settings.

Follows Kubeflow Trainer v2.3: the pod sets are the runtime's replicated jobs, patched by `spec.runtimePatches`. The number of
nodes comes from `spec.trainer`, else from the runtime's policy, and the trainer's containers named `node` get
`resourcesPerNode`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.base import Job
from admission.integrations.declared.entries import MOST_PODS, DeclaredPodSet, name_of
from admission.integrations.declared.referenced import REFERENCED, MissingReference
from admission.integrations.paths import value_at, with_value
from api.errors import InvalidObject
from api.job_kinds import PodSetRule
from api.kube.resources import Resource
from api.meta import object_key

GROUP: Final = "trainer.kubeflow.org"
RUNTIMES: Final = Resource(GROUP, "v1alpha1", "trainingruntimes", "TrainingRuntime")
CLUSTER_RUNTIMES: Final = Resource(
    GROUP, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""On templates of training runtimes: `trainer` marks the replicated job whose pods train."""
_MANAGER: Final = "kueue.x-k8s.io/manager"
"""In TrainJobs, the manager of the entry of spec.runtimePatches that Stowage writes."""
_NODE: Final = "node"
_MOST_JOBS: Final = 64


class RuntimePods:
    """The PodSetFunction of TrainJob."""

    reads: Final = (RUNTIMES, CLUSTER_RUNTIMES)

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """Returns resource and key of the runtime, or None if the job names none that can exist."""
        named = value_at(job, ("spec", "runtimeRef"))
        named = named if isinstance(named, Mapping) else {}
        kind, name = named.get("kind", CLUSTER_RUNTIMES.kind), named.get("name")
        kind_read = next((each for each in self.reads if each.kind == kind), None)
        if kind_read is None or not isinstance(name, str):
            return None
        return kind_read, object_key(_namespace(job), name) if kind_read.namespaced else name

    def pod_sets(self, job: Job, rule: PodSetRule) -> Sequence[DeclaredPodSet]:
        """See PodSetFunction."""
        given, at = value_at(job, ("spec", "runtimeRef")), "spec.runtimeRef"
        reference = self.reference(job)
        if reference is None:
            kinds = " or ".join(each.kind for each in self.reads)
            raise InvalidObject(at, given, f"must name a {kinds}", name_of(job))
        resource, key = reference
        runtime = REFERENCED.get(resource, key)
        if runtime is None:
            raise MissingReference(at, key, f"must be a {resource.kind} that exists", name_of(job))
        jobs = value_at(runtime, ("spec", "template", "spec", "replicatedJobs"))
        if not isinstance(jobs, list) or not 1 <= len(jobs) <= _MOST_JOBS:
            allowed = f"must be a {resource.kind} with 1 to {_MOST_JOBS} replicatedJobs"
            raise InvalidObject(at, key, allowed, name_of(job))
        policy = value_at(runtime, ("spec", "mlPolicy"))
        return [self._pod_set(job, rule, one, policy if isinstance(policy, Mapping) else None) for one in jobs]

    def _pod_set(
        self, job: Job, rule: PodSetRule, replicated_job: Any, policy: Mapping[str, Any] | None
    ) -> DeclaredPodSet:
        name = value_at(replicated_job, ("name",))
        if not isinstance(name, str) or not name:
            raise InvalidObject(
                "spec.runtimeRef", replicated_job, "must be a runtime whose replicatedJobs have names", name_of(job)
            )
        for patch in _patches(job, name):
            replicated_job = _merged(replicated_job, patch)
        at = ("spec", "template", "spec", "replicatedJobs", name)
        template = value_at(replicated_job, ("template", "spec", "template"))
        if not isinstance(template, Mapping):
            raise InvalidObject("spec.runtimeRef", template, f"must have a pod template in {name}", name_of(job))
        trains = value_at(replicated_job, ("template", "metadata", "labels", _STEP)) == "trainer" and policy is not None
        in_mpi = name == _NODE and value_at(policy, ("mpi", "runLauncherAsNode")) is True
        resources = value_at(job, ("spec", "trainer", "resourcesPerNode"))
        if (trains or in_mpi) and isinstance(resources, Mapping):
            template = _with_resources(template, resources)
        pods = _pods(job, name, replicated_job, policy or {}, trains=trains)
        return DeclaredPodSet(at, name, {}, job, rule, template=template, count=pods)

    def written(self, job: Job, entry: DeclaredPodSet, template: Mapping[str, Any]) -> Job:
        """Returns the job unchanged: TrainJob declares `writeBack`, so a start never edits the runtime."""
        return job


def _pods(job: Job, name: str, replicated_job: Any, policy: Mapping[str, Any], *, trains: bool) -> int:
    at, nodes = "spec.trainer.numNodes", value_at(job, ("spec", "trainer", "numNodes"))
    mpi = policy.get("mpi")
    if mpi is None and trains and nodes is not None:
        parallelism = nodes
    elif mpi is not None and name == _NODE and nodes is not None:
        as_node = value_at(mpi, ("runLauncherAsNode",)) is True
        parallelism = max(nodes - 1, 1) if as_node and type(nodes) is int else nodes
    elif trains:
        at, parallelism = "spec.runtimeRef", policy.get("numNodes", 1)
    else:
        at, parallelism = "spec.runtimeRef", value_at(replicated_job, ("template", "spec", "parallelism"))
        parallelism = 1 if parallelism is None else parallelism
    if type(parallelism) is not int or not 0 <= parallelism <= MOST_PODS:
        raise InvalidObject(at, parallelism, f"must be a whole number of pods for {name}", name_of(job))
    return parallelism


def _patches(job: Job, name: str) -> list[Any]:
    """Returns users' runtime patches of the replicated job; Stowage's own entry is merged later, as part of the template."""
    entries = value_at(job, ("spec", "runtimePatches"))
    patches = []
    for entry in entries if isinstance(entries, list) else ():
        if value_at(entry, ("manager",)) == _MANAGER:
            continue
        jobs = value_at(entry, ("trainingRuntimeSpec", "template", "spec", "replicatedJobs"))
        patches += [one for one in jobs if value_at(one, ("name",)) == name] if isinstance(jobs, list) else []
    return patches


def _with_resources(template: Mapping[str, Any], resources: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = value_at(template, ("spec", "containers"))
    if not isinstance(containers, list):
        return template
    changed = []
    for container in containers:
        if value_at(container, ("name",)) == _NODE:
            before = value_at(container, ("resources",))
            container = {**container, "resources": _merged(before if isinstance(before, Mapping) else {}, resources)}
        changed.append(container)
    result: Mapping[str, Any] = with_value(template, ("spec", "containers"), changed)
    return result


def _merged(old: Any, patch: Any) -> Any:
    """Applies the subset of strategic merge patch that pod templates need: lists merge by `name`, null removes a field."""
    if isinstance(patch, Mapping):
        out = dict(old) if isinstance(old, Mapping) else {}
        for key, value in patch.items():
            if value is None:
                out.pop(key, None)
            else:
                out[key] = _merged(out.get(key), value)
        return out
    named = isinstance(patch, list) and all(isinstance(value_at(one, ("name",)), str) for one in patch)
    if not named or not isinstance(old, list):
        return patch
    by_name = {one["name"]: one for one in patch}
    kept = [_merged(one, by_name.pop(name)) if (name := value_at(one, ("name",))) in by_name else one for one in old]
    return [*kept, *by_name.values()]


def _namespace(job: Job) -> str:
    return str((job.get("metadata") or {}).get("namespace") or "")
