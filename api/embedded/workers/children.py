"""The child Jobs of a JobSet: new Jobs, the merge on resume, and their summary. Pure; called by jobsets.py."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from api.embedded.patch import clone
from api.embedded.status import Obj
from api.embedded.workers.base import controller_ref, holds

_KEY = "jobset.sigs.k8s.io"
_NAME, _RESTART = f"{_KEY}/replicatedjob-name", f"{_KEY}/restart-attempt"


def wanted(jobset: Obj, restarts: int) -> Iterator[Obj]:
    """Yields all child Jobs in order."""
    first = 0
    for replicated in jobset["spec"].get("replicatedJobs") or ():
        for index in range(replicated["replicas"]):
            yield _child(jobset, replicated, index, first + index, restarts)
        first += replicated["replicas"]


def _child(jobset: Obj, replicated: Obj, index: int, global_index: int, restarts: int) -> Obj:
    template, meta = clone(replicated["template"]), jobset["metadata"]
    name = f"{meta['name']}-{replicated['name']}-{index}"
    marks = _marks(jobset, replicated, index, global_index, restarts, name)
    spec, given = template["spec"], template.get("metadata") or {}
    spec["suspend"] = bool(jobset["spec"].get("suspend"))
    _mark(spec["template"].setdefault("metadata", {}), marks)
    network = jobset["spec"].get("network") or {}
    if network.get("enableDNSHostnames"):
        spec["template"]["spec"]["subdomain"] = network.get("subdomain") or meta["name"]
    own = {"name": name, "namespace": meta["namespace"], "ownerReferences": [controller_ref(jobset)]}
    own |= {key: dict(given[key]) for key in ("labels", "annotations") if given.get(key)}
    _mark(own, marks)
    return {"metadata": own, "spec": spec}


def _mark(meta: Obj, marks: dict[str, str]) -> None:
    for field in ("labels", "annotations"):
        meta[field] = {**(meta.get(field) or {}), **marks}


def _marks(jobset: Obj, replicated: Obj, index: int, global_index: int, restarts: int, name: str) -> dict[str, str]:
    """Returns the JobSet's labels (also set as annotations) of a child Job and its pods."""
    meta, every = jobset["metadata"], jobset["spec"]["replicatedJobs"]
    group = [item for item in every if item.get("groupName") == replicated.get("groupName")]
    before = sum(item["replicas"] for item in group[: group.index(replicated)])
    values = {
        "jobset-name": meta["name"],
        "jobset-uid": meta["uid"],
        "replicatedjob-name": replicated["name"],
        "replicatedjob-replicas": replicated["replicas"],
        "restart-attempt": restarts,
        "job-index": index,
        "job-global-index": global_index,
        "global-replicas": sum(item["replicas"] for item in every),
        "job-key": hashlib.sha1(f"{meta['namespace']}/{name}".encode(), usedforsecurity=False).hexdigest(),
        "group-name": replicated.get("groupName", "default"),
        "group-replicas": sum(item["replicas"] for item in group),
        "job-group-index": before + index,
    }
    return {f"{_KEY}/{key}": str(value) for key, value in values.items()}


def restart_of(job: Obj) -> int:
    """Returns the restart attempt of the JobSet to which a child belongs."""
    return int(job["metadata"]["labels"].get(_RESTART, 0))


def merged(jobset: Obj, job: Obj) -> Obj:
    """Returns the child's template with the five mutable fields of the JobSet's template merged in."""
    name = job["metadata"]["labels"][_NAME]
    replicated = next(item for item in jobset["spec"]["replicatedJobs"] if item["name"] == name)
    given: Obj = replicated["template"]["spec"]["template"]
    own: Obj = clone(job["spec"]["template"])
    given_meta, meta = given.get("metadata") or {}, own.setdefault("metadata", {})
    for field in ("labels", "annotations"):
        meta[field] = {**(meta.get(field) or {}), **(given_meta.get(field) or {})}
    spec, given_spec = own["spec"], given["spec"]
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **(given_spec.get("nodeSelector") or {})}
    for field in ("tolerations", "schedulingGates"):
        spec[field] = _union(spec.get(field), given_spec.get(field))
    return own


def _union(first: list[Any] | None, second: list[Any] | None) -> list[Any]:
    return [*(first or ()), *(item for item in second or () if item not in (first or ()))]


def is_finished(job: Obj) -> bool:
    return holds(job.get("status", {}), "Complete", "Failed")


def has_failed(job: Obj) -> bool:
    return holds(job.get("status", {}), "Failed")


def summary(jobset: Obj, jobs: Sequence[Obj]) -> list[Obj]:
    """Returns status.replicatedJobsStatus: counts of child Jobs by state."""
    return [
        _counts(item["name"], [job for job in jobs if job["metadata"]["labels"][_NAME] == item["name"]])
        for item in jobset["spec"].get("replicatedJobs") or ()
    ]


def _counts(name: str, jobs: Sequence[Obj]) -> Obj:
    going = [job for job in jobs if not is_finished(job)]
    return {
        "name": name,
        "ready": sum(_is_ready(job) for job in going),
        "active": sum((job.get("status") or {}).get("active", 0) > 0 for job in going),
        "suspended": sum(bool(job["spec"].get("suspend")) for job in going),
        "succeeded": sum(holds(job.get("status", {}), "Complete") for job in jobs),
        "failed": sum(has_failed(job) for job in jobs),
    }


def _is_ready(job: Obj) -> bool:
    spec, status = job["spec"], job.get("status") or {}
    pods = min(spec["parallelism"], spec["completions"] if spec.get("completions") is not None else spec["parallelism"])
    return bool(status.get("ready", 0) + status.get("succeeded", 0) >= pods)


def is_complete(jobset: Obj, jobs: Sequence[Obj]) -> bool:
    """Reports whether the success policy is met: All or Any of the targeted children (all if none is named)."""
    policy = jobset["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs")
    every = [item for item in jobset["spec"].get("replicatedJobs") or () if not targets or item["name"] in targets]
    names = {item["name"] for item in every}
    done = sum(holds(job.get("status", {}), "Complete") and job["metadata"]["labels"][_NAME] in names for job in jobs)
    return done > 0 if policy.get("operator") == "Any" else done == sum(item["replicas"] for item in every)


def failure(jobset: Obj, failed: Obj) -> tuple[str, str]:
    """Returns reason and message of the Failed condition."""
    first = f"(first failed job: {failed['metadata']['name']})"
    if jobset["spec"].get("failurePolicy"):
        return "ReachedMaxRestarts", f"jobset failed due to reaching max number of restarts {first}"
    return "FailedJobs", f"jobset failed due to one or more job failures {first}"
