"""Decides which pods that no node accepts at their place lose that place, and which of them are ended. Pure.

pod_displacer.py calls it, and acts. An ungated pod cannot be assigned elsewhere. So its place is given up and
another one found (second_pass.py); then the pod is ended, and its owner creates a replacement, which the ungater assigns to the
new place. This requires that the owner replaces the pod and does not fail because of it (`successors`), that another host could
accept the pod (`helps`), and that the rest of the gang keeps its places. Otherwise the whole workload is evicted, if the
settings say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from admission.controllers.nodes.node_replacement import hosts_and_counts
from api.workloads import Workload

DISRUPTION: Final = "DisruptionTarget"
"""The condition by which a Job's failure policy recognizes a pod that ended through no fault of its own."""

Place = tuple[str, str]
"""(pod set, hostname)."""

_ELSEWHERE: Final = ("persistentvolumeclaim", "resourceclaim", "storageclass", "no nodes available")
"""Parts of kube-scheduler's messages for which no other host would help."""


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that was ungated for a host and that kube-scheduler refuses."""

    name: str
    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Displacement:
    """`end` names the pods whose place is given up already; `lost` is how many pods of each place need another place."""

    end: tuple[str, ...] = ()
    lost: Mapping[Place, int] = field(default_factory=dict)


def displacement(workload: Workload, stuck: Iterable[StuckPod], bound: Mapping[Place, int]) -> Displacement:
    """Decides about a workload's stuck pods; `bound` counts its pods that occupy a node, by place.

    Places are attributed to bound pods first; stuck pods beyond the remaining places have none any more.
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
        if kept := [pod for pod in pods[:left] if helps(pod.message)]:
            lost[place] = len(kept)
    return Displacement(tuple(end), lost)


def helps(message: str) -> bool:
    """Reports whether another host may accept a pod with this message of kube-scheduler."""
    words = message.lower()
    return not any(each in words for each in _ELSEWHERE)


def successors(owner: Mapping[str, Any], failing: int) -> bool:
    """Reports whether the owner replaces `failing` ended pods and continues, for a Job by its failure policy and limits."""
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
    """Returns the action of the first rule that matches the condition DisruptionTarget, or Count."""
    for rule in rules:
        for pattern in rule.get("onPodConditions") or ():
            if pattern.get("type") == DISRUPTION and pattern.get("status", "True") == "True":
                return str(rule.get("action"))
    return "Count"
