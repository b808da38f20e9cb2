"""The terms of a Sakkara group, from its ConfigMap or else from the PodGroup of its name. Pure.

A gang is a Sakkara group if its pods carry the group label, or if they name a PodGroup and a ConfigMap describes a group of
that name: the ConfigMap wins. A PodGroup instead of a ConfigMap gives the size by minMember, and every level packs. A
ConfigMap sets no schedule timeout and names no gang group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from admission.controllers.pods.gangs.gang import ExactGang, GangTerms
from admission.integrations.pods.gang import PodGang, from_text
from admission.integrations.pods.pod import QueuedPod
from api.groups import PodGroup
from api.names import GANG_MADE, GANG_TERMS, SAKKARA_GROUP
from api.sakkara import DescribedGroup, SakkaraGroup


def as_described(
    terms: GangTerms, pods: Sequence[QueuedPod], described: DescribedGroup | None, pod_group: PodGroup | None
) -> GangTerms:
    """Returns a Sakkara group's terms for a gang that is one; other terms are returned unchanged."""
    gang = _gang_of(pods)
    if gang is None or not (gang.sakkara or (described is not None and gang.minimum is None)):
        return terms
    if described is None:
        return _of_pod_group(terms, pod_group)
    terms = replace(terms, groups=(), uid=described.uid or terms.uid, schedule_timeout=None)
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
    """Reports whether Stowage created the PodGroup for pods that state their minimum."""
    return GANG_MADE in pod_group.metadata.labels


def _gang_of(pods: Sequence[QueuedPod]) -> PodGang | None:
    texts = (pod.annotations.get(GANG_TERMS) for pod in pods)
    return next((gang for text in texts if (gang := from_text(text)) is not None), None)
