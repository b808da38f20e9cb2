"""What holds for a Sakkara group: what its ConfigMap says, else the PodGroup of its name. Pure.

A gang is one if its pods carry the label of groups, or if they name a PodGroup and a ConfigMap describes a group of that name:
the ConfigMap wins. With a PodGroup in its place the size is minMember and every level packs. A ConfigMap sets no time limit and
names no other groups to start with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from admission.controllers.pods.gang import ExactGang, GangTerms
from admission.integrations.gang import PodGang, from_text
from admission.integrations.pod import QueuedPod
from api.groups import PodGroup
from api.names import GANG_MADE, GANG_TERMS, SAKKARA_GROUP
from api.sakkara import GroupRead, SakkaraGroup


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """What a ConfigMap comes to; `name` and `uid` are its own."""

    name: str
    uid: str
    read: GroupRead


def as_described(
    terms: GangTerms, pods: Sequence[QueuedPod], described: DescribedGroup | None, pod_group: PodGroup | None
) -> GangTerms:
    """The terms of a gang, made those of a Sakkara group where it is one; else as they are."""
    gang = _said(pods)
    if gang is None or not (gang.sakkara or (described is not None and gang.minimum is None)):
        return terms
    if described is None:
        return _of_pod_group(terms, pod_group)
    terms = replace(terms, groups=(), uid=described.uid or terms.uid, timeout=None)
    group = described.read.group
    if group is None:
        faults = "; ".join(map(str, described.read.faults))
        return replace(terms, minimum=None, lacking=f"ConfigMap {described.name}: {faults}")
    return replace(terms, minimum=group.size, exact=ExactGang(group, described.name, group.own_priority))


def _of_pod_group(terms: GangTerms, pod_group: PodGroup | None) -> GangTerms:
    size = pod_group.spec.min_member if pod_group is not None and not _made(pod_group) else None
    if size is None:
        lacking = (
            f"no ConfigMap with the label {SAKKARA_GROUP} describes group {terms.name}, and there is no PodGroup of it"
        )
        return replace(terms, minimum=None, lacking=lacking)
    return replace(terms, minimum=size, exact=ExactGang(SakkaraGroup(terms.name, size), by_priority=False))


def _made(pod_group: PodGroup) -> bool:
    """By us, for pods that said how many they are."""
    return GANG_MADE in pod_group.metadata.labels


def _said(pods: Sequence[QueuedPod]) -> PodGang | None:
    texts = (pod.annotations.get(GANG_TERMS) for pod in pods)
    return next((gang for text in texts if (gang := from_text(text)) is not None), None)
