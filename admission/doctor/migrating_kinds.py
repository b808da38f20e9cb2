"""What a migration from Kueue does to the jobs of each kind, in a line per kind. Pure; part of the preflight.

`tests/e2e/test_kueue_kinds.py` plays what the lines say, with Kueue itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from admission.doctor.view import Obj, View, condition
from admission.integrations.owners import is_managed_kind
from api.kube.resources import LEADER_WORKER_SETS, PODS, STATEFUL_SETS, WORKLOADS
from api.names import FINISHED, IS_GROUP_WORKLOAD, QUOTA_RESERVED

_GROUP: Final = "pod group"
_JOBS: Final = (
    "those that run keep their Workload, quota and places; those that wait stay suspended until they are admitted"
)
_FATES: Final[Mapping[str, str]] = {
    PODS.kind: (
        "plain pods and those of Deployments: what runs keeps its Workload and quota, what waits keeps its gates until it is "
        "admitted; a pod that its Deployment makes anew queues by itself"
    ),
    _GROUP: (
        "pods that run keep their Workload and places, and a pod that replaces a lost one joins them; those that wait start "
        "together"
    ),
    STATEFUL_SETS.kind: (
        "keeps its Workload and its template, so no pod restarts; a pod that comes back is held and joins its group; scaled "
        "beyond its quota, the whole set waits"
    ),
    LEADER_WORKER_SETS.kind: (
        "each group keeps its Workload, and the templates stay, so no pod restarts; a new group gets a Workload of its own and "
        "waits for its quota"
    ),
}


def fates(view: View) -> tuple[str, ...]:
    """Returns a line for each kind of the Workloads that have not ended, sorted by kind. An unmanaged kind has a finding."""
    jobs: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for workload in view.of(WORKLOADS):
        if condition(workload, FINISHED).get("status") == "True" or (kind := _kind(workload)) is None:
            continue
        holds = condition(workload, QUOTA_RESERVED).get("status") == "True"
        jobs[kind]["run" if holds else "wait"] += 1
    return tuple(
        f"{kind}: {counts['run']} with quota, {counts['wait']} waiting: {_FATES.get(kind, _JOBS)}"
        for kind, counts in sorted(jobs.items())
    )


def _kind(workload: Obj) -> str | None:
    """Returns the kind of the Workload's owner as users know it; None without an owner of a managed kind."""
    owners: Sequence[Obj] = workload["metadata"].get("ownerReferences") or ()
    groups = [(str(owner.get("apiVersion") or ""), str(owner.get("kind") or "")) for owner in owners]
    kinds = [kind for version, kind in groups if is_managed_kind((version.rpartition("/")[0], kind))]
    above = next((kind for kind in kinds if kind != PODS.kind), None)
    if above is not None or not kinds:
        return above
    marks = workload["metadata"].get("annotations") or {}
    return _GROUP if IS_GROUP_WORKLOAD in marks else PODS.kind
