"""Sorts the objects of files by kind, and gives them names and times.

Objects of other kinds, or without a valid name or time, are rejected with the reason. This module decodes nothing; builder.py
calls it and adds the objects to a world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from admission.controllers.watch.cluster_view import WATCHED
from admission.integrations.declared.referenced import keep_referenced
from admission.integrations.job_kinds import declare
from admission.integrations.registry import REFERENCED_KINDS
from admission.integrations.unmanaged import notice
from admission.world import elastic_quotas, pod_units
from admission.world.documents import Document
from admission.world.jobs import NotManaged, job_kinds
from admission.world.sakkara_maps import describes_group
from admission.world.sets import set_kinds
from admission.world.template_pods import MAKERS, owner
from admission.world.world import RejectedObject
from api.errors import InvalidObject
from api.kube.resources import (
    CONFIG_MAPS,
    JOB_KINDS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    SIGS_POD_GROUPS,
    WORKLOADS,
    Resource,
)
from api.meta import object_key, parse_time, rfc3339

GROUPS: Final = (POD_GROUPS, SIGS_POD_GROUPS)
_OTHERS: Final = frozenset((*GROUPS, *MAKERS, WORKLOADS, PODS))

_IGNORED_KINDS: Final = frozenset(("Kustomization",))  # often next to manifests, but not part of a cluster
_READ: Final = frozenset((*WATCHED, *elastic_quotas.KINDS))


def addable_kinds() -> frozenset[Resource]:
    """Returns the kinds of objects that can be added to an existing world."""
    return _OTHERS | job_kinds().keys() | set_kinds().keys()


class InputObjects:
    """The input, sorted by kind. Rejected objects are appended to `faults`; `uids` is the prefix of generated UIDs."""

    def __init__(self, faults: list[RejectedObject], uids: str = "") -> None:
        self._faults, self._uids, self._count = faults, uids, 0
        self._by_kind: dict[Resource, list[Document]] = {}
        self._addable_kinds = addable_kinds()
        self._names: set[tuple[Resource, str]] = set()

    def sort(self, documents: Iterable[Document], *, keep_stored: bool = False) -> None:
        """Sorts these objects. JobKinds come first, because they determine the kinds of other objects.

        With `keep_stored`, the objects to which jobs refer are added to those that are cached already.
        """
        documents = list(documents)
        for document in documents:
            if document.resource == JOB_KINDS:
                try:
                    declare(document.object)
                except InvalidObject as bad:
                    self.fault(document, f"{bad.field}: {bad.given!r}: {bad.allowed}")
        self._addable_kinds = addable_kinds()
        keep_referenced(REFERENCED_KINDS, [document.object for document in documents], keep_stored=keep_stored)
        ignored = _IGNORED_KINDS | {kind.kind for kind in REFERENCED_KINDS}
        for document in documents:
            if (
                document.kind not in ignored
                and document.resource != JOB_KINDS
                and (text := self._sorted(document)) is not None
            ):
                self.fault(document, text)

    def _sorted(self, document: Document) -> str | None:
        """Files one object under its kind. Returns the reason if it is rejected."""
        kind, meta = document.resource, document.object.get("metadata")
        if kind is None or (kind not in _READ and kind not in self._addable_kinds):
            return notice(document.object) or _unknown(document)
        if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
            return "metadata.name is missing"
        if kind.namespaced:
            meta["namespace"] = meta.get("namespace") or "default"
        meta["name"] = meta.get("name") or f"{meta['generateName']}{self._next()}"
        try:
            created(document)
        except ValueError as bad:
            return f"metadata.creationTimestamp: {bad}"
        if kind in self._addable_kinds and (kind, document.name) in self._names:
            return "appears twice: the first one counts"
        self._names.add((kind, document.name))
        self._by_kind.setdefault(kind, []).append(document)
        return None

    def of(self, kind: Resource) -> list[Document]:
        """Returns the objects of a kind in input order."""
        return self._by_kind.get(kind, [])

    def others(self) -> Iterator[Document]:
        """Yields the objects that are neither jobs nor parts of jobs."""
        for kind, given in self._by_kind.items():
            if kind not in self._addable_kinds:
                yield from (one for one in given if kind is not CONFIG_MAPS or not describes_group(one.object))

    def group_maps(self) -> list[Document]:
        """Returns the ConfigMaps that describe Sakkara groups."""
        return [document for document in self.of(CONFIG_MAPS) if describes_group(document.object)]

    def has_object(self, document: Document, kind: str, name: str) -> bool:
        """Reports whether the input has an object of that kind and name in the document's namespace."""
        wanted = f"{kind} {object_key(document.object['metadata']['namespace'], name)}"
        return any(resource.kind == kind and name == wanted for resource, name in self._names)

    def is_part(self, document: Document) -> bool:
        """Reports whether a controller owns the object. Raises NotOurs if that owner is missing from the input."""
        by = owner(document.object)
        if by is None:
            return False
        if not self.has_object(document, by["kind"], by["name"]):
            raise NotManaged(f"is part of {by['kind']} {by['name']}, which is not there")
        return True

    def fault(self, document: Document, message: str) -> None:
        """Records that the object is rejected, and why."""
        self._faults.append(RejectedObject(document.where, document.name, message))

    # ---- replaces the API server and controllers

    def translate(self) -> None:
        """Adds the queues of elastic quotas, unless the files contain them."""
        quotas = [(kind, document) for kind in elastic_quotas.KINDS for document in self.of(kind)]
        made, faults = elastic_quotas.queues_of(quotas)
        for document, text in faults:
            self.fault(document, text)
        for one in made:
            given = self._by_kind.setdefault(one[0], [])
            if not elastic_quotas.is_among(one, given):
                given.append(Document("", one[1]))

    def imply_namespaces(self) -> None:
        """Adds namespaces that objects use but no document describes."""
        named = {document.object["metadata"]["name"] for document in self.of(NAMESPACES)}
        used = {
            document.object["metadata"]["namespace"]
            for kind, given in self._by_kind.items()
            if kind.namespaced
            for document in given
        }
        for name in sorted(used - named):
            self._by_kind.setdefault(NAMESPACES, []).append(Document("", {"metadata": {"name": name}}))

    def start_time(self) -> float:
        """Returns the start time in epoch seconds, as files.py defines it."""
        written, creation_times = [0.0], []
        for document in self.of(WORKLOADS):
            conditions = (document.object.get("status") or {}).get("conditions") or ()
            with suppress(ValueError):  # reported when the Workload is decoded
                written += [epoch_seconds(condition.get("lastTransitionTime")) for condition in conditions]
            creation_times.append(created(document))
        for kind in (*job_kinds(), *MAKERS, *set_kinds()):
            creation_times += [created(document) for document in self.of(kind)]
        creation_times += [created(pod) for pod in self.of(PODS) if not pod_units.is_bound(pod.object)]
        return max(written) or min((at for at in creation_times if at), default=0.0)

    def identified(self, obj: dict[str, Any], now: float) -> dict[str, Any]:
        """Sets a missing UID and creation timestamp in place, and returns the object."""
        meta = obj["metadata"]
        meta["uid"] = meta.get("uid") or f"{self._uids}{self._next():08d}"
        meta["creationTimestamp"] = meta.get("creationTimestamp") or rfc3339(now)
        return obj

    def _next(self) -> int:
        self._count += 1
        return self._count


def created(document: Document) -> float:
    """Returns the creation time in epoch seconds, 0 if absent. Raises ValueError if it is not a time."""
    return epoch_seconds(document.object["metadata"].get("creationTimestamp"))


def epoch_seconds(text: object) -> float:
    """Returns a timestamp in epoch seconds, 0 if absent. Raises ValueError if it is not a time."""
    return parse_time(str(text)) or 0.0 if text else 0.0


def _unknown(document: Document) -> str:
    version, expected_version = document.object.get("apiVersion"), document.expected_version
    if expected_version is None or version == expected_version:
        return "not read: a kind that has no part in admission"
    return f"not read: its apiVersion is {version!r}, only {expected_version} is supported"
