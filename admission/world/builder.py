"""Builds a world from documents, feeding each object to the engine as the controller would, jobs and pods as Workloads.

Objects that cannot be used are listed in the world's faults, and the rest is loaded. Called by files.py, which lists the
defaults that replace an API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from typing import Any

import msgspec

from admission.controllers.sakkara.groups import group_key
from admission.controllers.watch.cluster_view import WATCHED
from admission.webhook.kinds.workload_status import reclaimable_errors
from admission.webhook.rules.fields import aggregate
from admission.world import pod_units, sets, template_pods
from admission.world.api_defaults import arrive_at_once, as_created, settle_namespace, settle_node
from admission.world.documents import Document
from admission.world.input_objects import GROUPS, InputObjects, addable_kinds, epoch_seconds
from admission.world.jobs import (
    NotManaged,
    arrival,
    checkpoints,
    completed,
    duration,
    job_kinds,
    left_to_gangs,
    lookups,
    workload_of,
)
from admission.world.objects import Objects
from admission.world.pod_units import Units
from admission.world.rules import WorldRules
from admission.world.template_pods import MAKERS
from admission.world.workload_facts import about, add_states
from admission.world.world import Arrival, WorkloadFacts, World
from api.errors import InvalidObject, StowageError
from api.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, WORKLOADS, Resource
from api.kube.resources import JOBS as JOBS_KIND
from api.meta import is_true, object_key
from api.names import FINISHED
from api.workloads import Workload


class Builder:
    """Adds documents to a world. `uids` is the prefix of generated UIDs; added jobs get one that sorts after all digits."""

    def __init__(self, world: World, objects: Objects, uids: str = "") -> None:
        self._world, self.objects = world, objects
        self._given = InputObjects(world.faults, uids)
        self._units = Units(objects)
        self._lookups = lookups(objects.view, self._units.gang_pods)
        self._titles: dict[str, str] = {}

    @classmethod
    def empty(cls, rules: WorldRules | None) -> Builder:
        """Returns a builder for an empty world."""
        rules = rules or WorldRules()
        world = World.under(rules)
        return cls(world, Objects(world.state, rules))

    def build(self, documents: Iterable[Document]) -> World:
        """Adds all documents and returns the world."""
        given = self._given
        given.sort(documents)
        given.translate()
        for kind in WATCHED:
            if kind is NAMESPACES:
                given.imply_namespaces()
            if kind is CONFIG_MAPS:
                self._each(kind, self._add_map)
            elif kind is WORKLOADS:
                self._world.now = given.start_time()
                self._each(kind, self._add_workload)
            else:
                self._each(kind, self._add_pod if kind is PODS else self._add)
        self._add_jobs()
        self._world.arrivals.sort(key=lambda coming: coming.at)
        add_states(self._world, self.objects.view.workloads.objects.values())
        self._world.keep_time()
        return self._world

    def add_jobs(self, documents: Iterable[Document]) -> list[str]:
        """Adds jobs and pods, pending from `now` on, to a built world. Returns the keys of their Workloads in order."""
        self._given.sort(documents, keep_stored=True)
        known = set(self._world.about)
        for document in self._given.others():
            self._given.fault(document, "only jobs and pods can be added")
        for kind in addable_kinds():
            for document in self._given.of(kind):
                arrive_at_once(document.object)
        for document in self._given.group_maps():
            self._try(document, self._add_map, CONFIG_MAPS)
        self._each(WORKLOADS, self._add_workload)
        self._each(PODS, self._add_pod)
        self._add_jobs()
        return [key for key in self._world.about if key not in known]

    def _each(self, kind: Resource, add: Callable[[Document, Resource], None]) -> None:
        for document in self._given.of(kind):
            self._try(document, add, kind)

    def _try(self, document: Document, add: Callable[[Document, Resource], None], kind: Resource) -> None:
        try:
            add(document, kind)
        except InvalidObject as bad:
            self._given.fault(document, f"{bad.field}: {bad.given!r}: {bad.allowed}")
        except (StowageError, ValueError) as bad:
            self._given.fault(document, str(bad))

    def _decoded(self, kind: Resource, data: bytes) -> object:
        return self.objects.decoded(kind, data) if kind in WATCHED else None

    def _add(self, document: Document, kind: Resource) -> None:
        obj = self._completed(kind, document.object)
        if kind is NODES:
            settle_node(obj)
        elif kind is NAMESPACES:
            settle_namespace(obj)
        self.objects.add(kind, msgspec.json.encode(obj))

    def _add_map(self, document: Document, kind: Resource) -> None:
        self.objects.add(kind, msgspec.json.encode(self._identified(kind, document)))

    def _completed(self, kind: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        return completed(kind, obj, self._lookups, self.objects.rules.webhook, self._decoded)

    def _identified(self, kind: Resource, document: Document) -> dict[str, Any]:
        """Returns the object with defaults, a UID and a creation timestamp, as it would be stored."""
        return self._given.identified(self._completed(kind, document.object), self._world.now)

    def _add_jobs(self) -> None:
        for kind in job_kinds():
            self._each(kind, self._add_job)
        for kind in GROUPS:
            self._each(kind, self._add_pod_group)
        kinds = sets.set_kinds()
        for kind in dict.fromkeys((*kinds, *MAKERS)):
            self._each(kind, self._add_set if kind in kinds else self._add_maker)
        for members in self._units.all():
            self._try(members.documents[0], self._add_unit_of(members), PODS)
        self._name_empty_groups()
        self._name_map_problems()

    def _add_workload(self, document: Document, kind: Resource) -> None:
        self._drop_reclaimable(document)
        obj = self._identified(kind, document)
        workload: Workload = self.objects.decoded(kind, msgspec.json.encode(obj))
        if not is_true(workload.status.conditions, FINISHED):
            self._enter(workload, _facts(workload, None, duration(obj), obj), self._arrival(obj))

    def _drop_reclaimable(self, document: Document) -> None:
        """Drops reclaimable pods that the API server would refuse: the Workload is there, and its pods stay charged."""
        status, rules = document.object.get("status"), self.objects.rules.webhook
        if not isinstance(status, dict) or not status.get("reclaimablePods"):
            return
        try:
            errors = reclaimable_errors(document.object, {}, rules)
        except (TypeError, AttributeError, ValueError):
            return  # reported when the Workload is decoded
        if errors:
            self._given.fault(document, f"{aggregate(errors)}; all of its pods stay charged")
            document.object["status"] = {key: value for key, value in status.items() if key != "reclaimablePods"}

    def _add_job(self, document: Document, kind: Resource) -> None:
        adapter = job_kinds()[kind]
        obj = self._identified(kind, document)
        title = document.name
        if self._set_run_time(title, duration(obj)):  # the files have its Workload
            return
        context, rules = self.objects.context(), self.objects.rules.webhook
        if left_to_gangs(obj, adapter, context, rules):
            self._add_job_of_gangs(document, kind)
            return
        made = workload_of(obj, adapter, context, rules)
        if made is None:
            self._given.is_part(document)
            return
        workload = as_created(made, obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"])
        self._enter(workload, _facts(workload, title, duration(obj), obj), self._arrival(obj))

    def _add_job_of_gangs(self, document: Document, kind: Resource) -> None:
        if kind is not JOBS_KIND:
            raise NotManaged("names no queue, and pods of its gangs are simulated only if the files contain them")
        if job_kinds()[kind].is_suspended(document.object):
            raise NotManaged("is suspended, and names no queue that would start it")
        self._add_pods_of(kind, document)

    def _set_run_time(self, title: str, run_for: float | None) -> bool:
        """Reports whether a Workload of this title exists, and sets its run time if one is given."""
        known = self._titles.get(title)
        if known is not None and run_for is not None:
            self._world.about[known] = replace(self._world.about[known], run_for=run_for)
        return known is not None

    # ---- pods and their owners

    def _add_pod(self, document: Document, kind: Resource) -> None:
        pod = document.object
        if pod_units.is_bound(pod):
            self.objects.add(kind, msgspec.json.encode(pod))
        elif pod_units.is_over(pod):
            return
        elif (job := pod_units.job_of(pod)) is not None and not pod_units.in_gang(pod):
            if not self._job_exists(document, *job):
                raise NotManaged(f"is part of {job[0]} {job[1]}, which is not there, and no node holds it")
        elif pod_units.in_set(pod):
            self._given.is_part(document)
        else:
            self._add_unbound(document, kind)

    def _job_exists(self, document: Document, kind: str, name: str) -> bool:
        """Reports whether a job of that name, or its Workload, exists."""
        title = f"{kind} {object_key(document.object['metadata']['namespace'], name)}"
        return title in self._titles or self._given.has_object(document, kind, name)

    def _add_unbound(self, document: Document, kind: Resource) -> None:
        pod = document.object
        stored = pod if pod_units.is_known(pod) else self._completed(kind, pod)
        self._units.add(Document(document.where, self._given.identified(stored, self._world.now)))

    def _add_pod_group(self, document: Document, kind: Resource) -> None:
        self.objects.add_pod_group(kind, self._identified(kind, document))

    def _add_set(self, document: Document, kind: Resource) -> None:
        if not sets.is_whole(document.object, self.objects):
            if kind not in MAKERS:
                raise NotManaged("names no queue, so nothing holds its pods back")
            self._add_maker(document, kind)
            return
        obj = self._identified(kind, document)
        seconds = duration(obj)
        made = sets.workloads_of(obj, sets.set_kinds()[kind], self.objects, self._world.now)
        for number, workload in enumerate(made):
            title = document.name if len(made) == 1 else f"{document.name}-{number}"
            stored = as_created(
                workload, obj["metadata"]["creationTimestamp"], f"{obj['metadata']['uid']}-{number:04d}"
            )
            lasts = sets.RUN_FOR if seconds is None else seconds
            self._enter(stored, _facts(stored, title, lasts, obj), self._arrival(obj))

    def _add_maker(self, document: Document, kind: Resource) -> None:
        if self._given.is_part(document):
            return
        self._add_pods_of(kind, Document(document.where, self._completed(kind, document.object)))

    def _add_pods_of(self, kind: Resource, maker: Document) -> None:
        for pod in list(template_pods.missing_pods(kind, maker, self._given.of(PODS))):
            self._add_unbound(pod, PODS)

    def _add_unit_of(self, members: pod_units.UnitPods) -> Callable[[Document, Resource], None]:
        return lambda _, __: self._add_unit(members)

    def _add_unit(self, members: pod_units.UnitPods) -> None:
        durations = [duration(document.object) for document in members.documents]
        run_for = max((seconds for seconds in durations if seconds is not None), default=None)
        self._set_run_time(members.title, run_for)
        at = max(self._arrival(document.object) for document in members.documents)
        for made in self._units.workloads(members, self._world.now):
            first = members.documents[0].object["metadata"]
            workload = as_created(made.workload, first["creationTimestamp"], first["uid"])
            lasts = inf if made.serving and run_for is None else run_for
            self._enter(workload, _facts(workload, made.title, lasts, members.documents[0].object), at)

    def _name_empty_groups(self) -> None:
        for kind in GROUPS:
            for document in self._given.of(kind):
                self._name_if_empty(document, _key(document))
        for document in self._given.group_maps():
            if (obj := self.objects.groups.object(_key(document))) is not None:
                self._name_if_empty(document, group_key(obj))

    def _name_if_empty(self, document: Document, key: str) -> None:
        if key not in self._units.gangs() and f"PodGroup {key}" not in self._titles:
            self._given.fault(document, "no pod of its gang is there that waits")

    def _name_map_problems(self) -> None:
        for document in self._given.of(CONFIG_MAPS):
            if (problem := self.objects.map_problem(_key(document))) is not None:
                self._given.fault(document, problem)

    # ---- adding Workloads

    def _arrival(self, obj: dict[str, Any]) -> float:
        after = arrival(obj)
        created = epoch_seconds(obj["metadata"]["creationTimestamp"])
        return max(self._world.now, created) if after is None else self._world.now + after

    def _enter(self, workload: Workload, facts: WorkloadFacts, at: float) -> None:
        if at > self._world.now:
            taken = self.objects.converted(workload)
            self._world.arrivals.append(Arrival(at, replace(taken, queued=at)))
        else:
            self.objects.add(WORKLOADS, msgspec.json.encode(workload.to_wire()))
            if (validation_error := self.objects.validation_error(workload)) is not None:
                raise ValidationFailedError(validation_error.removeprefix(f"Workload {workload.key}: "))
        self._world.about[workload.key] = facts
        self._titles[facts.title] = workload.key


def _facts(workload: Workload, title: str | None, run_for: float | None, obj: dict[str, Any]) -> WorkloadFacts:
    return replace(about(workload, title, run_for), save_every=checkpoints(obj))


def _key(document: Document) -> str:
    meta = document.object["metadata"]
    return object_key(meta["namespace"], meta["name"])


class ValidationFailedError(StowageError):
    """The engine rejected a Workload; the message says why."""
