"""Composes the Workloads of pods that are not bound to a node: single pods, pod groups, and gangs, each admitted as a unit.

Uses the webhook's defaults and rules, the controller's decoding of pods and its plan for the unit. Of that plan only created
Workloads count, or the reason why there are none. A unit arrives with its last pod. Called by builder.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from admission.controllers.jobs.context import JobContext
from admission.controllers.pods.actions import PodGroupPlan
from admission.controllers.pods.gang_plan import plan_gang
from admission.controllers.pods.gangs import freequeue
from admission.controllers.pods.gangs.gang import is_gang
from admission.controllers.pods.pod_indexes import BY_POD, GROUP, pod_keys, unit_key
from admission.controllers.pods.pod_plan import plan
from admission.controllers.state.actions import CreateWorkload
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit
from admission.integrations.registry import KINDS
from admission.integrations.sets.sets import all_sets
from admission.webhook.rules import gangs
from admission.webhook.rules.gang_pods import GangPod, read_member
from admission.world.documents import Document
from admission.world.jobs import NotManaged
from admission.world.objects import Objects
from admission.world.template_pods import FOREVER, owner
from admission.world.workload_facts import group_title
from api import names
from api.errors import StowageError
from api.kube.decode import DECODE_ERRORS, undecodable
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, PODS, RESOURCE_FLAVORS
from api.meta import object_key
from api.workloads import Workload

_OVER: Final = ("Succeeded", "Failed")


def is_bound(pod: Mapping[str, Any]) -> bool:
    """Reports whether the pod has a node, on which it counts whatever its owner."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def is_over(pod: Mapping[str, Any]) -> bool:
    """Reports whether the pod has ended."""
    return (pod.get("status") or {}).get("phase") in _OVER


def is_known(pod: Mapping[str, Any]) -> bool:
    """Reports whether the webhook has completed the pod already."""
    labels, annotations = (pod["metadata"].get(part) or {} for part in ("labels", "annotations"))
    marked = names.MANAGED_LABEL in labels or names.POD_SUSPENDING_PARENT in annotations
    return marked and names.ROLE_HASH in annotations


def job_of(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns kind and name of the job that controls the pod, or None."""
    by = owner(pod)
    return (by["kind"], by["name"]) if by is not None and by.get("kind") in _owners() else None


def in_set(pod: Mapping[str, Any]) -> bool:
    """Reports whether the pod belongs to a set that is admitted by its groups."""
    framework = (pod["metadata"].get("annotations") or {}).get(names.POD_SUSPENDING_PARENT)
    return any(kind.framework == framework for kind in all_sets())


def in_gang(pod: Mapping[str, Any]) -> bool:
    """Reports whether the pod names a gang, and so waits for that gang and not with its job."""
    return gangs.reading(pod, pod["metadata"].get("namespace") or "").gang is not None


class NotComposed(StowageError):
    """The unit gets no Workload; the message says why."""


@dataclass(slots=True)
class ComposedWorkload:
    """A Workload that the controller would create, and its title. `serving` means that its pods never end."""

    workload: Workload
    title: str
    serving: bool


@dataclass(slots=True)
class UnitPods:
    """The pods of one unit with their documents, in input order."""

    key: str
    pods: list[QueuedPod] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The unit's name for users, such as `PodGroup default/train`."""
        kind, _, name = self.key.partition(":")
        return group_title(name, gang=is_gang(self.pods)) if kind == GROUP else f"Pod {name}"


class Units:
    """The unbound pods of a world: `add` collects them, `all` yields them by unit."""

    def __init__(self, objects: Objects) -> None:
        self._objects, self._read = objects, QueuedPodReader()
        self._members: dict[str, UnitPods] = {}
        self._gangs: dict[str, list[GangPod]] = {}

    def gang_pods(self, key: str) -> Iterable[GangPod]:
        """Returns the pods of a gang that were added so far, by its key."""
        return self._gangs.get(key, ())

    def gangs(self) -> set[str]:
        """Returns the keys of gangs and groups that have pods."""
        return {key.partition(":")[2] for key in self._members if key.startswith(f"{GROUP}:")}

    def add(self, document: Document) -> None:
        """Adds a pod that the webhook has completed. Raises NotOurs or InvalidObject."""
        data = msgspec.json.encode(document.object)
        try:
            pod, member = self._read(data), read_member(data)
        except DECODE_ERRORS as bad:
            raise undecodable(PODS.kind, data, bad) from None
        key = unit_key(pod)
        if key is None:
            raise NotManaged(
                f"names no queue (label {names.QUEUE_NAME_LABEL}) and no gang, so nothing holds it back, and no node holds it"
            )
        unit = self._members.setdefault(key, UnitPods(key))
        if any(other.metadata.name == pod.metadata.name for other in unit.pods):
            raise NotManaged("another pod of its name is there")
        unit.pods.append(pod)
        unit.documents.append(document)
        if member.gang is not None:
            self._gangs.setdefault(object_key(member.metadata.namespace, member.gang.name), []).append(member)

    def _free_queue(self, namespace: str, name: str) -> None:
        """Adds the queue for gangs that name none, with its ClusterQueue and flavor, where they are missing."""
        view = self._objects.view
        wanted = (
            (RESOURCE_FLAVORS, view.flavors.objects, freequeue.flavor(name)),
            (CLUSTER_QUEUES, view.cluster_queues.objects, freequeue.cluster_queue(name, view.flavors.objects)),
            (LOCAL_QUEUES, view.local_queues.objects, freequeue.local_queue(namespace, name)),
        )
        for kind, there, made in wanted:
            if made.key not in there:
                self._objects.add(kind, msgspec.json.encode(made.to_wire()))

    def all(self) -> Iterator[UnitPods]:
        """Yields the units in the order of their first pods."""
        yield from self._members.values()

    def workloads(self, members: UnitPods, now: float) -> list[ComposedWorkload]:
        """Returns the Workloads that the controller would create for the unit; none if one exists already.

        Raises NotComposed if the controller would create none, or InvalidObject.
        """
        unit = PodUnit.of(members.pods)
        workloads = self._objects.view.workloads.objects
        if not unit.group and self._controlled(unit.first):
            return []
        known = [workloads[key] for key in (members.key.partition(":")[2],) if unit.group and key in workloads]
        made = self._plan(unit, known, now)
        created = [action.workload for action in made.actions if isinstance(action, CreateWorkload)]
        if not created and not known:
            raise NotComposed(
                "; ".join(event.message for event in made.events) or made.note or "its pods are not gated"
            )
        for each in created:
            if each.spec.queue_name in freequeue.QUEUES:
                self._free_queue(unit.namespace, each.spec.queue_name)
        serving = unit.serving or any(
            (owner(document.object) or {}).get("kind") in FOREVER for document in members.documents
        )
        return [ComposedWorkload(each, self._title(each, members), serving) for each in created]

    def _plan(self, unit: PodUnit, workloads: list[Workload], now: float) -> PodGroupPlan:
        context: JobContext = self._objects.context()
        if not is_gang(unit.pods):
            return plan(unit, workloads, context, now)
        key = object_key(unit.namespace, unit.group)
        terms = self._objects.terms(key, unit.pods)
        late_pods = {pod.key: self._controlled(pod) for pod in unit.pods}
        return plan_gang(unit, terms, workloads, late_pods, context, now)

    def _controlled(self, pod: QueuedPod) -> list[Workload]:
        """Returns the Workloads of this pod alone."""
        return self._objects.view.workloads.by_index(BY_POD, pod.key)

    @staticmethod
    def _title(workload: Workload, members: UnitPods) -> str:
        late_pod = next(iter(pod_keys(workload)), None)
        return members.title if late_pod is None else f"Pod {late_pod}"


def _owners() -> set[str]:
    return {adapter.resource.kind for adapter in KINDS.adapters()}
