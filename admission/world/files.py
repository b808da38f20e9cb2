"""A world from files: nodes, topologies, flavors, queues, and jobs that are there already or come later.

The beginning. Where Workloads stand in the files with what became of them (a copy of a live cluster), it is the latest moment
that any of them tells of; else the first creationTimestamp of a job; without any, 0. What was created by then is there at the
beginning, anything else is an arrival; the annotation `stowage.dev/simulated-arrival` counts from the beginning.

What cannot be taken is named in `faults`, and the rest goes on. In place of the API server: namespace `default`, namespaces
that nobody describes bear their name as label, a node without conditions is ready, a missing hostname label is the node's
name, its system Linux, a missing UID is the place in the files (which is how equals are ordered). Elastic quotas become the
queues that the controller would make of them (elastic.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from admission.engine.model import PlacementOptions
from admission.world import elastic
from admission.world.cluster import about
from admission.world.documents import Document, Unreadable, documents
from admission.world.jobs import (
    JOB_KINDS,
    arrival,
    completed,
    duration,
    lookups,
    workload_of,
)
from admission.world.objects import KINDS, Objects
from admission.world.snapshot import decode, from_snapshot, is_snapshot
from admission.world.world import BUDGET, About, Arrival, Fault, World
from api.errors import InvalidObject, StowageError
from api.kube.resources import NAMESPACES, NODES, WORKLOADS, Resource
from api.meta import is_true, parse_time, rfc3339
from api.names import FINISHED, HOSTNAME_LABEL, SIMULATED_ARRIVAL
from api.workloads import Workload

_SILENT = frozenset(("Kustomization",))  # stands beside manifests, and says nothing of a cluster
_NAME_LABEL = "kubernetes.io/metadata.name"
_OS_LABEL = "kubernetes.io/os"


def from_files(paths: Sequence[Path], options: PlacementOptions | None = None, *, budget: int = BUDGET) -> World:
    """The world of these files; of one that is a snapshot, as it says itself. Raises Unreadable, InvalidObject (snapshot)."""
    return load_files(paths, options, budget=budget)[0]


def load_files(
    paths: Sequence[Path], options: PlacementOptions | None = None, *, budget: int = BUDGET
) -> tuple[World, Objects | None]:
    """As `from_files`, with the objects, for whoever wants to add to them; a snapshot has none."""
    found = list(documents(paths))
    for document in found:
        if is_snapshot(document.object):
            if len(found) > 1:
                raise Unreadable(f"{document.where}: a snapshot is a whole world: nothing can stand beside it")
            return from_snapshot(decode(msgspec.json.encode(document.object), document.where)), None
    world = World(options, budget=budget)
    builder = _Builder(world)
    builder.build(found)
    return world, builder.objects


def from_documents(
    found: Iterable[Document], options: PlacementOptions | None = None, *, budget: int = BUDGET
) -> World:
    """The world of these objects."""
    return _Builder(World(options, budget=budget)).build(found)


def add_jobs(world: World, objects: Objects, found: Iterable[Document]) -> list[str]:
    """Jobs on top of a world that is there: pending from `now` on. Tells their keys, in order."""
    return _Builder(world, objects).add_jobs(found)


class _Builder:
    def __init__(self, world: World, objects: Objects | None = None) -> None:
        self._world = world
        self.objects = objects or Objects(world.books)
        self._lookups = lookups(self.objects.sight)
        self._by_kind: dict[Resource, list[Document]] = {}
        self._titles: dict[str, str] = {}
        self._count = 0
        # those that are added come after all that are there already, whose UIDs are digits
        self._uids = "zz-added-" if objects else ""

    def build(self, found: Iterable[Document]) -> World:
        for document in found:
            self._sort(document)
        self._translate()
        for kind in KINDS:
            if kind is NAMESPACES:
                self._imply_namespaces()
            if kind is WORKLOADS:
                self._world.now = self._beginning()
                self._take_workloads()
            else:
                for document in self._by_kind.get(kind, ()):
                    self._try(document, self._take, kind)
        self._world.arrivals.sort(key=lambda coming: coming.at)
        return self._world

    def add_jobs(self, found: Iterable[Document]) -> list[str]:
        for document in found:
            self._sort(document)
        known = set(self._world.about)
        for kind, given in self._by_kind.items():
            if kind in JOB_KINDS or kind is WORKLOADS:
                for document in given:
                    _now(document)
                    self._try(document, self._take_job if kind in JOB_KINDS else self._take_workload, kind)
            else:
                self._world.faults += [Fault(d.where, d.name, "only jobs can be added") for d in given]
        return [key for key in self._world.about if key not in known]

    # ---- which is which

    def _sort(self, document: Document) -> None:
        kind, meta = document.resource, document.object.get("metadata")
        if document.kind in _SILENT:
            return
        if kind is None or not (kind in KINDS or kind in JOB_KINDS or kind in elastic.KINDS):
            self._fault(document, _unknown(document))
        elif not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
            self._fault(document, "metadata.name is missing")
        else:
            if kind.namespaced:
                meta["namespace"] = meta.get("namespace") or "default"
            meta["name"] = meta.get("name") or f"{meta['generateName']}{self._next()}"
            try:
                _created(document)
            except ValueError as bad:
                self._fault(document, f"metadata.creationTimestamp: {bad}")
                return
            self._by_kind.setdefault(kind, []).append(document)

    def _translate(self) -> None:
        """What elastic quotas stand for, unless it stands in the files itself."""
        quotas = [(kind, document) for kind in elastic.KINDS for document in self._by_kind.get(kind, ())]
        made, faults = elastic.queues_of(quotas)
        for document, text in faults:
            self._fault(document, text)
        for one in made:
            given = self._by_kind.setdefault(one[0], [])
            if not elastic.is_among(one, given):
                given.append(Document("", one[1]))

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _imply_namespaces(self) -> None:
        named = {document.object["metadata"]["name"] for document in self._by_kind.get(NAMESPACES, ())}
        used = {
            document.object["metadata"]["namespace"]
            for kind, given in self._by_kind.items()
            if kind.namespaced
            for document in given
        }
        for name in sorted(used - named):
            self._by_kind.setdefault(NAMESPACES, []).append(Document("", {"metadata": {"name": name}}))

    def _beginning(self) -> float:
        told, created = [0.0], []
        for document in self._by_kind.get(WORKLOADS, ()):
            conditions = (document.object.get("status") or {}).get("conditions") or ()
            with suppress(ValueError):  # named when the Workload is taken
                told += [_moment(condition.get("lastTransitionTime")) for condition in conditions]
            created.append(_created(document))
        for kind in JOB_KINDS:
            created += [_created(document) for document in self._by_kind.get(kind, ())]
        return max(told) or min((moment for moment in created if moment), default=0.0)

    # ---- taking them in

    def _decoded(self, kind: Resource, data: bytes) -> object:
        return self.objects.decoded(kind, data) if kind in KINDS else None

    def _try(self, document: Document, take: Any, kind: Resource) -> None:
        try:
            take(document, kind)
        except InvalidObject as bad:
            self._fault(document, f"{bad.field}: {bad.given!r}: {bad.allowed}")
        except (StowageError, ValueError) as bad:
            self._fault(document, str(bad))

    def _fault(self, document: Document, message: str) -> None:
        self._world.faults.append(Fault(document.where, document.name, message))

    def _take(self, document: Document, kind: Resource) -> None:
        obj = completed(kind, document.object, self._lookups, self._decoded)
        meta = obj["metadata"]
        if kind is NODES:
            _settle(obj)
        elif kind is NAMESPACES:
            meta["labels"] = {_NAME_LABEL: meta["name"], **(meta.get("labels") or {})}
        self.objects.add(kind, msgspec.json.encode(obj))

    def _take_workloads(self) -> None:
        for document in self._by_kind.get(WORKLOADS, ()):
            self._try(document, self._take_workload, WORKLOADS)
        for kind in JOB_KINDS:
            for document in self._by_kind.get(kind, ()):
                self._try(document, self._take_job, kind)

    def _take_workload(self, document: Document, kind: Resource) -> None:
        obj = self._identified(completed(kind, document.object, self._lookups, self._decoded))
        workload: Workload = self.objects.decoded(kind, msgspec.json.encode(obj))
        if not is_true(workload.status.conditions, FINISHED):
            self._enter(workload, about(workload, run_for=duration(obj)), self._arrival(obj))

    def _take_job(self, document: Document, kind: Resource) -> None:
        adapter = JOB_KINDS[kind]
        obj = self._identified(completed(kind, document.object, self._lookups, self._decoded))
        title = document.name
        if (known := self._titles.get(title)) is not None:  # its Workload stands in the files too
            if (run_for := duration(obj)) is not None:
                self._world.about[known] = replace(self._world.about[known], run_for=run_for)
            return
        made = workload_of(obj, adapter, self.objects.surroundings())
        if made is None:
            return
        meta = {"creation_timestamp": obj["metadata"]["creationTimestamp"], "uid": obj["metadata"]["uid"]}
        workload = made.model_copy(update={"metadata": made.metadata.model_copy(update=meta)})
        self._enter(workload, about(workload, title, duration(obj)), self._arrival(obj))

    def _identified(self, obj: dict[str, Any]) -> dict[str, Any]:
        meta = obj["metadata"]
        meta["uid"] = meta.get("uid") or f"{self._uids}{self._next():08d}"
        meta["creationTimestamp"] = meta.get("creationTimestamp") or rfc3339(self._world.now)
        return obj

    def _arrival(self, obj: dict[str, Any]) -> float:
        after = arrival(obj)
        created = _moment(obj["metadata"]["creationTimestamp"])
        return max(self._world.now, created) if after is None else self._world.now + after

    def _enter(self, workload: Workload, known: About, at: float) -> None:
        if at > self._world.now:
            taken = self.objects.converted(workload)
            self._world.arrivals.append(Arrival(at, replace(taken, queued=at)))
        else:
            self.objects.add(WORKLOADS, msgspec.json.encode(workload.to_wire()))
            if (misfit := self.objects.misfit(workload)) is not None:
                raise Misfit(misfit.removeprefix(f"Workload {workload.key}: "))
        self._world.about[workload.key] = known
        self._titles[known.title] = workload.key


def _now(document: Document) -> None:
    """Whenever it was made, and whenever it means to come: it comes now."""
    meta = document.object["metadata"]
    meta.pop("creationTimestamp", None)
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"].pop(SIMULATED_ARRIVAL, None)


class Misfit(StowageError):
    """A workload that the engine cannot take; the text says what is wrong with it."""


def _settle(node: dict[str, Any]) -> None:
    """What kubelet and API server would have put in."""
    labels = node["metadata"].setdefault("labels", {})
    labels.setdefault(HOSTNAME_LABEL, node["metadata"]["name"])
    labels.setdefault(_OS_LABEL, "linux")
    status = node.setdefault("status", {})
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = status["capacity"]
    if not status.get("conditions"):
        status["conditions"] = [{"type": "Ready", "status": "True"}]


def _created(document: Document) -> float:
    return _moment(document.object["metadata"].get("creationTimestamp"))


def _moment(text: object) -> float:
    """Epoch seconds; 0 for none. Raises ValueError for what is no time."""
    return parse_time(str(text)) or 0.0 if text else 0.0


def _unknown(document: Document) -> str:
    version, spoken = document.object.get("apiVersion"), document.spoken
    if spoken is None or version == spoken:
        return "not read: a kind that has no part in admission"
    return f"not read: its apiVersion is {version!r}, only {spoken} is spoken"
