"""Compares the pod sets of a job, waiting or started, with those of its Workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.podset import OWN_ANNOTATIONS, OWN_LABELS, PodSetInfo
from api.workloads import PodSet, Workload

# Fields of a pod spec that decide where its pods may run and what they request.
_SHAPE: Final = ("containers", "initContainers", "resources", "overhead", "runtimeClassName", "affinity")

# Maps under these keys must not gain entries: quota was requested and found for exactly what they contain.
_PLAIN: Final = frozenset((str, int, bool, float, type(None)))
_EXACT: Final = ("resources", "nodeAffinity", "restartPolicy")


def same_pod_sets(first: tuple[PodSet, ...], second: tuple[PodSet, ...]) -> bool:
    """Reports whether both ask for the same pods, including all labels."""
    return first == second or bool(normal([_wire(p) for p in first]) == normal([_wire(p) for p in second]))


def _wire(pod_set: PodSet) -> dict[str, Any]:
    """Returns the pod set as JSON object, without a topology request that only states how pods are numbered."""
    requested = pod_set.to_wire()
    if (requested.get("topologyRequest") or {}).keys() <= {"podIndexLabel"}:
        requested.pop("topologyRequest", None)
    return requested


def same_templates(first: tuple[PodSet, ...], second: tuple[PodSet, ...]) -> bool:
    """Reports whether both have equal templates, that is, without additions of a start."""
    here, there = [p.template for p in first], [p.template for p in second]
    return here == there or bool(normal(here) == normal(there))


def similar_pod_sets(running: tuple[PodSet, ...], requested: tuple[PodSet, ...], admitted: bool = False) -> bool:
    """Reports whether `running` are the `requested` pod sets, possibly with additions to their templates.

    Of pods that run `admitted`, node selector and tolerations are not compared: they were compared at the start.
    """
    return [(p.name, p.count) for p in running] == [(p.name, p.count) for p in requested] and all(
        _started_template(now.template, was.template, admitted) for now, was in zip(running, requested, strict=True)
    )


def started_pod_sets(running: tuple[PodSet, ...], workload: Workload, runs_admitted: bool = False) -> bool:
    """Reports whether `running` can be the Workload's pod sets after a start: the same pods, with nothing removed.

    Additions of the start are not checked, since flavors may have changed since.
    """
    admission = workload.status.admission
    if admission is None:
        return False
    counts = {psa.name: psa.count for psa in admission.pod_set_assignments}
    admitted = (p.model_copy(update={"count": _started_count(p, counts.get(p.name))}) for p in workload.spec.pod_sets)
    return similar_pod_sets(running, tuple(admitted), runs_admitted)


def has_start(now: tuple[PodSet, ...], workload: Workload) -> bool:
    """Reports whether the templates still have labels or annotations that only a start adds.

    Every start adds some (pod_set_infos.py), also Kueue's, and a stop that restores the templates removes all of them.
    """
    requested = {pod_set.name: pod_set.template for pod_set in workload.spec.pod_sets}
    return any(_own(pod_set.template) - _own(requested[pod_set.name]) for pod_set in now if pod_set.name in requested)


def _own(template: Mapping[str, Any]) -> set[tuple[str, Any]]:
    meta = template.get("metadata") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    own = {(key, labels[key]) for key in OWN_LABELS & labels.keys()}
    return own | {(key, annotations[key]) for key in OWN_ANNOTATIONS & annotations.keys()}


def unfinished_start(running: tuple[PodSet, ...], infos: Sequence[PodSetInfo]) -> bool:
    """Reports whether pods run without a node label or gate of their admission: another client unsuspended the job."""
    specs = {pod_set.name: pod_set.template.get("spec") or {} for pod_set in running}
    return any(
        not info.node_selector.keys() <= (specs[info.name].get("nodeSelector") or {}).keys()
        or not set(info.scheduling_gates) <= {gate["name"] for gate in specs[info.name].get("schedulingGates") or ()}
        for info in infos
        if info.name in specs
    )


def _started_count(pod_set: PodSet, admitted: int | None) -> int:
    return admitted if pod_set.min_count and admitted is not None else pod_set.count


def _started_template(now: Mapping[str, Any], was: Mapping[str, Any], admitted: bool) -> bool:
    spec, old = now.get("spec") or {}, was.get("spec") or {}
    if not all(_keeps(normal(spec.get(field)), normal(old.get(field))) for field in _SHAPE):
        return False
    if admitted:
        return True
    selector, tolerations = spec.get("nodeSelector") or {}, spec.get("tolerations") or []
    kept: bool = all(selector.get(key) == value for key, value in (old.get("nodeSelector") or {}).items())
    return kept and all(toleration in tolerations for toleration in old.get("tolerations") or ())


def _keeps(now: Any, was: Any) -> bool:
    """Reports whether `now` still contains everything in `was`; API server defaults may be added, but no further requests."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        exact = all(now.get(key) == was.get(key) for key in _EXACT)
        return exact and all(key in now and _keeps(now[key], value) for key, value in was.items())
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(map(_keeps, now, was))
    return bool(now == was)


def normal(value: Any) -> Any:
    """Returns the value without nulls, empty maps and empty lists at any depth, which all mean the same as absence."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        items = ((key, normal(item)) for key, item in value.items())
        return {key: item for key, item in items if item is not None and item != {} and item != []}
    if isinstance(value, list | tuple):
        return [normal(item) for item in value]
    return value
