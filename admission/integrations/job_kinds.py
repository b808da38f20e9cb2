"""Keeps this process's job kinds in step with the cluster's JobKinds; the controller and the webhook both use it.

An invalid JobKind changes nothing: its kind is not admitted, and `problems` holds the error, which the controller writes into
the JobKind's status (controllers/job_kinds.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from admission.integrations.declared import DeclaredJob
from admission.integrations.job_kind_errors import read
from admission.integrations.registry import KINDS
from admission.integrations.scaled import ScaledSet
from admission.integrations.sets import SCALED
from api.errors import InvalidObject
from api.job_kinds import JobKindSpec
from api.kube.client import Kube
from api.kube.optional_informer import OptionalInformer
from api.kube.resources import JOB_KINDS
from api.kube.store import Change, ChangeType

log = logging.getLogger(__name__)

Adapter = DeclaredJob | ScaledSet
"""Of a kind that is suspended, or of one that is only scaled."""


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

    def on_change(self, told: Callable[[], None]) -> None:
        """Registers a callback for every change of a job kind or of a JobKind's error."""
        self._changed.append(told)

    def _handle(self, change: Change[dict[str, Any]]) -> None:
        name, before = change.key, self._adapters.get(change.key)
        problem, adapter = self.problems.get(name), None
        self.problems.pop(name, None)
        if change.type is not ChangeType.DELETED:
            try:
                spec = read(change.object).spec
                adapter = before if before is not None and before.spec == spec else adapter_of(spec)
            except InvalidObject as error:
                self.problems[name] = error
                log.warning("JobKind cannot be used", extra={"job_kind": name, "why": str(error)})
        if adapter is before and str(problem) == str(self.problems.get(name)):
            return
        if before is not None and adapter is not before:
            _withdraw(before)
            del self._adapters[name]
        if adapter is not None and adapter is not before:
            _declare(adapter)
            self._adapters[name] = adapter
        for told in self._changed:
            told()


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
