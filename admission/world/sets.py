"""Composes the Workloads of StatefulSets and LeaderWorkerSets in files, which are admitted by groups.

Uses the controller's plan for the set; of that only created Workloads count, or the reason. builder.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from admission.controllers.jobs.plan.workload import is_managed
from admission.controllers.pods.sets.setplan import plan_set
from admission.controllers.state.actions import CreateWorkload
from admission.integrations.sets.sets import SetKind, all_sets
from admission.world.objects import Objects
from api.errors import StowageError
from api.kube.resources import Resource
from api.workloads import Workload

RUN_FOR: Final = inf
"""Run time: pods of a set never end by themselves."""


def set_kinds() -> dict[Resource, SetKind]:
    """Returns the kinds of sets by resource."""
    return {kind.resource: kind for kind in all_sets()}


class NoGroups(StowageError):
    """The set gets no Workload; the message says why."""


def is_whole(obj: Mapping[str, Any], objects: Objects) -> bool:
    """Reports whether the set itself is admitted, because it names a queue."""
    return is_managed(obj, objects.context())


def workloads_of(obj: Mapping[str, Any], kind: SetKind, objects: Objects, now: float) -> list[Workload]:
    """Returns the Workloads that the controller would create besides existing ones. Raises NoGroups."""
    known = [w for w in objects.view.workloads.objects.values() if _is_of(w, obj, kind)]
    made = plan_set(kind, obj, known, (), objects.context(), now)
    created = [action.workload for action in made.workloads() if isinstance(action, CreateWorkload)]
    if not created and not known and made.events:
        raise NoGroups("; ".join(event.message for event in made.events))
    return created


def _is_of(workload: Workload, obj: Mapping[str, Any], kind: SetKind) -> bool:
    meta = obj["metadata"]
    owner = workload.owner
    of_it = owner is not None and (owner.kind, owner.name) == (kind.resource.kind, meta["name"])
    return workload.metadata.namespace == meta["namespace"] and of_it
