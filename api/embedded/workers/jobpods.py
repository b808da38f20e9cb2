"""The pods of a Job: new pods, their wanted number, and how a pod counts. Pure; called by jobs.py."""

from __future__ import annotations

from collections.abc import Sequence

from api.embedded.patch import clone
from api.embedded.status import Obj
from api.embedded.workers import indexes
from api.embedded.workers.base import controller_ref, holds
from api.names import JOB_COMPLETION_INDEX, JOB_TRACKING_FINALIZER


def new_pod(job: Obj, index: int | None) -> Obj:
    """Returns a pod from the Job's template, for one index of an Indexed Job."""
    template = clone(job["spec"]["template"])
    name, given = job["metadata"]["name"], template.get("metadata") or {}
    meta = {key: given[key] for key in ("labels", "annotations") if given.get(key)}
    meta |= {"namespace": job["metadata"]["namespace"], "ownerReferences": [controller_ref(job)]}
    meta["finalizers"] = [*(given.get("finalizers") or ()), JOB_TRACKING_FINALIZER]
    spec = template["spec"]
    if index is None:
        return {"metadata": {**meta, "generateName": f"{name}-"}, "spec": spec}
    for field in ("labels", "annotations"):
        meta[field] = {**meta.get(field, {}), JOB_COMPLETION_INDEX: str(index)}
    spec.setdefault("hostname", f"{name}-{index}")
    return {"metadata": {**meta, "generateName": f"{name}-{index}-"}, "spec": spec}


def phase(pod: Obj) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_tracked(pod: Obj) -> bool:
    return JOB_TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


def is_terminating(pod: Obj) -> bool:
    return "deletionTimestamp" in pod["metadata"] and phase(pod) not in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and phase(pod) not in ("Succeeded", "Failed")


def is_unfinished(pod: Obj) -> bool:
    """Reports whether the pod has not ended, terminating or not; the Job cannot end before it."""
    return phase(pod) not in ("Succeeded", "Failed")


def is_ready(pod: Obj) -> bool:
    return holds(pod.get("status", {}), "Ready")


def is_indexed(job: Obj) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Obj) -> int:
    return int(pod["metadata"]["annotations"][JOB_COMPLETION_INDEX])


def has_failed(job: Obj, pod: Obj) -> bool:
    """Reports whether the pod counts as failed. A deleted pod does, unless the Job replaces failed pods only."""
    if phase(pod) == "Failed":
        return True
    return job["spec"].get("podReplacementPolicy") != "Failed" and is_terminating(pod)


def has_ended(job: Obj, pod: Obj) -> bool:
    return phase(pod) == "Succeeded" or has_failed(job, pod)


def _wanted(job: Obj, status: Obj, active: int) -> int:
    """Returns the number of pods that should be active."""
    parallelism, completions = int(job["spec"]["parallelism"]), job["spec"].get("completions")
    if completions is not None:
        return min(parallelism, int(completions) - int(status.get("succeeded", 0)))
    return min(parallelism, active) if status.get("succeeded") else parallelism


def surplus(job: Obj, status: Obj, active: Sequence[Obj]) -> list[Obj]:
    """Returns surplus active pods: beyond the completions, duplicates of an index, or the last ones."""
    if not is_indexed(job):
        return list(active[_wanted(job, status, len(active)) :])
    wanted = _wanted(job, status, len(active))
    done, kept = indexes.parse(status.get("completedIndexes")), set[int]()
    unwanted = []
    for pod in sorted(active, key=index_of):
        index = index_of(pod)
        if index >= job["spec"]["completions"] or index in done | kept or len(kept) >= wanted:
            unwanted.append(pod)
        else:
            kept.add(index)
    return unwanted


def missing(job: Obj, status: Obj, pods: Sequence[Obj]) -> list[int | None]:
    """Returns the indexes for which to create pods, with None for each pod of a Job without indexes."""
    slow = job["spec"].get("podReplacementPolicy") == "Failed"
    running = [pod for pod in pods if is_active(pod) or (slow and is_terminating(pod))]
    number = _wanted(job, status, len(running)) - len(running)
    if number <= 0:
        return []
    if not is_indexed(job):
        return [None] * number
    taken = indexes.parse(status.get("completedIndexes")) | {index_of(pod) for pod in running}
    every: range = range(job["spec"]["completions"])
    return list[int | None](index for index in every if index not in taken)[:number]
