"""Keeps this process's job kinds in step with the cluster's JobKinds; the controller and the webhook both use it.

An invalid JobKind changes nothing: its kind is not admitted, and `problems` holds the error, which the controller writes into
the JobKind's status (controllers/job_kinds.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.job_kind_errors import read
from admission.integrations.registry import KINDS
from admission.integrations.sets.scaled import ScaledSet
from admission.integrations.sets.sets import SCALED
from api.errors import InvalidObject
from api.job_kinds import JobKindSpec
from api.kube.client import Kube
from api.kube.informers.optional_informer import OptionalInformer
from api.kube.informers.store import Change
from api.kube.resources import JOB_KINDS

log = logging.getLogger(__name__)

Adapter = DeclaredJob | ScaledSet
"""The adapter of a kind that can be suspended, or of one that can only be scaled."""


class JobKinds:
    """Declares and withdraws job kinds as JobKinds change. `informer` must always run; `problems` maps JobKind names to
    errors.
    """

    def __init__(self, kube: Kube) -> None:
        self.informer = OptionalInformer(kube, JOB_KINDS)
        self.problems: dict[str, InvalidObject] = {}
        self._adapters: dict[str, Adapter] = {}
        self._changed: list[Callable[[], None]] = []
        self.informer.add_handler(self._handle)

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """The adapters, keyed by the name of their JobKind."""
        return self._adapters

    def on_change(self, callback: Callable[[], None]) -> None:
        """Registers a callback for every change of a job kind or of a JobKind's error."""
        self._changed.append(callback)

    def _handle(self, change: Change[dict[str, Any]]) -> None:
        """Looks at the changed JobKind and at others of the same kind of object, of which only the oldest counts."""
        objects = self.informer.objects
        kinds = {_claimed(obj) for obj in (change.old, change.object) if obj is not None}
        names = sorted({change.key, *(name for name, obj in objects.items() if _claimed(obj) in kinds)})
        problems, adapters = {}, dict[str, Adapter]()
        for name in names:
            try:
                if (obj := objects.get(name)) is not None:
                    adapters[name] = self._adapter(name, obj)
            except InvalidObject as error:
                problems[name] = error
        self._replace(names, adapters, problems)

    def _adapter(self, name: str, obj: dict[str, Any]) -> Adapter:
        """Returns the JobKind's adapter, the same as before if nothing changed. Raises InvalidObject."""
        spec, before = read(obj).spec, self._adapters.get(name)
        rivals = [
            other for other in self.informer.objects.values() if _claimed(other) == _claimed(obj) and _is_valid(other)
        ]
        first = min((_age(rival) for rival in rivals), default=_age(obj))
        if first != _age(obj):
            allowed = f"must not be a kind that another JobKind declares: {first[1]} is older"
            raise InvalidObject("spec.kind", spec.kind, allowed, f"JobKind {name}")
        return before if before is not None and before.spec == spec else adapter_of(spec)

    def _replace(
        self, names: list[str], adapters: Mapping[str, Adapter], problems: Mapping[str, InvalidObject]
    ) -> None:
        """Puts these adapters and errors in the place of those that the names had."""
        changed = False
        for name in names:
            before = self._adapters.get(name)
            if before is not None and before is not adapters.get(name):
                _withdraw(before)
                del self._adapters[name]
                changed = True
        for name in names:
            if str(self.problems.pop(name, None)) != str(problem := problems.get(name)):
                changed = True
            if problem is not None:
                self.problems[name] = problem
                log.warning("JobKind cannot be used", extra={"job_kind": name, "why": str(problem)})
            if name in adapters and name not in self._adapters:
                _declare(adapters[name])
                self._adapters[name] = adapters[name]
                changed = True
        for callback in self._changed if changed else ():
            callback()


def _claimed(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Returns API group and kind that the JobKind is about, whatever else may be wrong with it."""
    spec = obj.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    return str(spec.get("group")), str(spec.get("kind"))


def _age(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Orders JobKinds: the older one first, then by name."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    return str(meta.get("creationTimestamp") or ""), str(meta.get("name"))


def _is_valid(obj: dict[str, Any]) -> bool:
    try:
        read(obj)
    except InvalidObject:
        return False
    return True


def declare(obj: dict[str, Any]) -> None:
    """Declares the JobKind's kind in a process that reads a cluster or files only once. Raises InvalidObject."""
    _declare(adapter_of(read(obj).spec))


def adapter_of(spec: JobKindSpec) -> Adapter:
    """Returns the adapter of the declared kind."""
    return DeclaredJob(spec) if spec.scale is None else ScaledSet(spec)


def _declare(adapter: Adapter) -> None:
    if isinstance(adapter, ScaledSet):
        SCALED.declare(adapter)
    else:
        KINDS.declare(adapter)


def _withdraw(adapter: Adapter) -> None:
    kind = (adapter.resource.group, adapter.resource.kind)
    if isinstance(adapter, ScaledSet):
        SCALED.withdraw(kind)
    else:
        KINDS.withdraw(kind)
