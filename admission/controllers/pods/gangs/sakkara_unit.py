"""A Sakkara group as a unit of pods: an exact number, one pod set, the group's constraints and priority. Pure.

Part of the plan of gangs (gangs.py). Surplus pods wait; one of them replaces a member that fails or is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from admission.controllers.pods.gangs.gang import ExactGang, GangTerms, GangUnit
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import PodUnit, UnlikePods
from admission.integrations.pods.sakkara import in_words
from api import names
from api.errors import InvalidObject
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec
from api.sakkara import SakkaraGroup
from api.topology_request import TopologyRequest
from api.workloads import PodSet


def unit_of(unit: PodUnit, terms: GangTerms) -> GangUnit:
    """Returns the gang's unit under its terms."""
    gang = GangUnit.of_gang(unit, terms)
    if terms.exact is None:
        return gang
    return ExactUnit(unit.namespace, unit.group, unit.pods, gang.minimum, exact=terms.exact)


_ALONE: Final = ExactGang(SakkaraGroup("", 1))


@dataclass(frozen=True)
class ExactUnit(GangUnit):
    """A gang of exactly `minimum` pods; `exact` holds the other terms of its ConfigMap."""

    exact: ExactGang = _ALONE

    @cached_property
    def total(self) -> int:
        """The group's size."""
        return self.minimum

    @property
    def priority(self) -> int | None:
        """The group's own priority, or None."""
        return self.exact.group.priority if self.exact.by_priority else None

    def members(self) -> tuple[list[QueuedPod], list[QueuedPod]]:
        """Returns its members, the oldest pods first and gated ones last, and its surplus pods."""
        counting = sorted(self.counting, key=lambda pod: (pod.gated, pod.created, pod.metadata.name))
        spare = {pod.metadata.name for pod in counting[self.minimum :]}
        return [pod for pod in self.pods if pod.metadata.name not in spare], counting[self.minimum :]

    def as_job(self) -> dict[str, Any]:
        """Returns the first member as a job; pods that name the group by a PodGroup use the queue of Sakkara groups too."""
        job = super().as_job()
        labels = job["metadata"]["labels"]
        if labels.get(names.QUEUE_NAME_LABEL) == names.GANG_QUEUE:
            job["metadata"] |= {"labels": {**labels, names.QUEUE_NAME_LABEL: names.SAKKARA_QUEUE}}
        return job

    def pod_sets(self, *, topology: bool = True) -> tuple[PodSet, ...]:
        """Returns one pod set of the group's size. Raises TooFewPods, UnlikePods, InvalidObject."""
        if other := self._unlike():
            raise self.difference(other)
        made = super().pod_sets(topology=topology)
        if not topology:
            return made
        constraints = {"constraints": self.exact.group.constraints}
        request = made[0].topology_request or TopologyRequest()
        return (made[0].model_copy(update={"topology_request": request.model_copy(update=constraints)}),)

    def _unlike(self) -> QueuedPod | None:
        """Returns the first pod that differs from the oldest, or None."""
        ordered = _by_age(self.counting)
        return next((pod for pod in ordered if pod.role != ordered[0].role), None)

    def difference(self, other: QueuedPod) -> UnlikePods:
        """Returns an error that describes how the pod differs from the oldest one."""
        one = _by_age(self.counting)[0]
        mine, theirs = _topology_text(one), _topology_text(other)
        if mine == theirs:
            allowed = f"the node selector, affinity, tolerations and priority of pod {one.metadata.name}"
            return UnlikePods("spec", f"pod {other.metadata.name}", allowed, self.group)
        given, wanted = f"{theirs} in pod {other.metadata.name}", f"the same as in pod {one.metadata.name}, {mine}"
        return UnlikePods("spec.containers", given, wanted, self.group)


def _by_age(pods: Sequence[QueuedPod]) -> list[QueuedPod]:
    return sorted(pods, key=lambda pod: (pod.created, pod.metadata.name))


def _topology_text(pod: QueuedPod) -> str:
    """Returns the pod's requests in words, or an empty string if its spec is not kept or unreadable."""
    if pod.spec is None:
        return ""
    try:
        return in_words(tuple(sorted(effective_requests(pod_spec({"spec": pod.read_spec()})).items())))
    except (msgspec.ValidationError, InvalidObject):
        return ""
