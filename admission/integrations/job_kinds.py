"""Keeps the kinds of job of this process in step with the JobKinds of the cluster. Both processes that read jobs use it.

A JobKind that cannot be used changes nothing: the kind is not admitted, and `problems` says why. The controller puts that into
the JobKind's status (controllers/job_kinds.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from admission.integrations.declared import DeclaredJob
from admission.integrations.job_kind_errors import read
from admission.integrations.registry import KINDS, GroupKind
from api.errors import InvalidObject
from api.kube.client import Kube
from api.kube.optional_informer import OptionalInformer
from api.kube.resources import JOB_KINDS
from api.kube.store import Change, ChangeType

log = logging.getLogger(__name__)


class JobKinds:
    """See the module. `informer` runs always; `changed` is called after each change of the kinds."""

    def __init__(self, kube: Kube) -> None:
        self.informer = OptionalInformer(kube, JOB_KINDS)
        self.problems: dict[str, InvalidObject] = {}
        self._adapters: dict[str, DeclaredJob] = {}
        self._changed: list[Callable[[], None]] = []
        self.informer.add_handler(self._handle)

    @property
    def adapters(self) -> Mapping[str, DeclaredJob]:
        """The adapters by the name of their JobKind."""
        return self._adapters

    def on_change(self, told: Callable[[], None]) -> None:
        """Call this after each change of the kinds, or of what is wrong with one."""
        self._changed.append(told)

    def _handle(self, change: Change[dict[str, Any]]) -> None:
        name, before = change.key, self._adapters.get(change.key)
        problem, adapter = self.problems.get(name), None
        self.problems.pop(name, None)
        if change.type is not ChangeType.DELETED:
            try:
                spec = read(change.object).spec
                adapter = before if before is not None and before.spec == spec else DeclaredJob(spec)
            except InvalidObject as error:
                self.problems[name] = error
                log.warning("JobKind cannot be used", extra={"job_kind": name, "why": str(error)})
        if adapter is before and str(problem) == str(self.problems.get(name)):
            return
        if before is not None and adapter is not before:
            KINDS.withdraw(_key(before))
            del self._adapters[name]
        if adapter is not None and adapter is not before:
            KINDS.declare(adapter)
            self._adapters[name] = adapter
        for told in self._changed:
            told()


def declare(obj: dict[str, Any]) -> None:
    """Admit jobs of the kind of this JobKind, in a process that reads a cluster or files once. Raises InvalidObject."""
    KINDS.declare(DeclaredJob(read(obj).spec))


def _key(adapter: DeclaredJob) -> GroupKind:
    return adapter.resource.group, adapter.resource.kind
