"""Pods that no node takes where they were sent: whose place is given up, and which of them are ended so that another comes.

Pure. A pod that was let through cannot be sent elsewhere. So its place is given up and another one found (second_pass.py); then
the pod is ended, and its owner makes one more, which the ungater sends there. That is done only for pods whose owner makes a
successor and does not end by it (`successors`), only where another host could help (`helps`), and only while the rest of
the gang holds its places: the workload goes back whole otherwise, as the settings say. Called by `unbound`, which acts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from admission.controllers.node_replacement import hosts_and_counts
from api.workloads import Workload

DISRUPTION: Final = "DisruptionTarget"
"""The condition by which a Job's failure policy knows a pod that is ended for no fault of its own."""

Place = tuple[str, str]
"""(pod set, hostname)."""

_ELSEWHERE: Final = ("persistentvolumeclaim", "resourceclaim", "storageclass", "no nodes available")
"""What the scheduler's words have in them where no other host would do better."""


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that was let through to a host and that the scheduler refuses."""

    name: str
    place: Place
    says: str


@dataclass(frozen=True, slots=True)
class Displacement:
    """`end`: names of pods whose place is given up already. `lost`: how many pods of each place are to get another one."""

    end: tuple[str, ...] = ()
    lost: Mapping[Place, int] = field(default_factory=dict)


def displacement(workload: Workload, stuck: Iterable[StuckPod], bound: Mapping[Place, int]) -> Displacement:
    """What to do about the stuck pods of a workload. `bound`: its pods that hold a node, by place.

    Each place counts for a bound pod first, so where there are more pods than places the rest have none any more.
    """
    places, waiting = Counter[Place](), dict[Place, list[StuckPod]]()
    for pod_set in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        for host, count in hosts_and_counts(pod_set):
            places[pod_set.name, host] += count
    for pod in stuck:
        waiting.setdefault(pod.place, []).append(pod)
    end, lost = list[str](), dict[Place, int]()
    for place, pods in sorted(waiting.items()):
        left = max(0, places[place] - bound.get(place, 0))
        pods.sort(key=lambda pod: pod.name)
        end += [pod.name for pod in pods[left:]]
        if kept := [pod for pod in pods[:left] if helps(pod.says)]:
            lost[place] = len(kept)
    return Displacement(tuple(end), lost)


def helps(says: str) -> bool:
    """Whether another host may take a pod of which the scheduler says this."""
    words = says.lower()
    return not any(each in words for each in _ELSEWHERE)


def successors(owner: Mapping[str, Any], failing: int) -> bool:
    """Whether the owner makes as many pods anew as are ended here, and goes on; of a Job by its failure policy and limits."""
    kind, spec, status = owner.get("kind"), owner.get("spec") or {}, owner.get("status") or {}
    if kind in ("ReplicaSet", "StatefulSet"):
        return True
    if kind != "Job" or spec.get("suspend"):
        return False
    match _by_policy((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        case "Ignore":
            return True
        case "FailJob" | "FailIndex":
            return False
    if spec.get("backoffLimitPerIndex") is not None:
        return False
    limit = spec.get("backoffLimit")
    return int(status.get("failed") or 0) + failing <= (6 if limit is None else int(limit))


def _by_policy(rules: Sequence[Mapping[str, Any]]) -> str:
    """The action of the first rule that matches a pod with the condition DisruptionTarget; Count where none does."""
    for rule in rules:
        for pattern in rule.get("onPodConditions") or ():
            if pattern.get("type") == DISRUPTION and pattern.get("status", "True") == "True":
                return str(rule.get("action"))
    return "Count"
