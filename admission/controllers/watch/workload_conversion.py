"""Converts Workloads to the engine's values: completed as the API server would, and with the reason why each must not be
considered, if any.

The feed calls it for each change of a Workload. engine/convert/convert_workloads.py converts the fields; this module adds what
depends on other objects: LimitRanges, RuntimeClasses, volumes, devices, queues, and slices. It also says what the ledger keeps
of a workload without quota while its pods are still bound: its places (`leaving`), and who pays (`payer_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from weakref import ReferenceType, ref

import msgspec

from admission.controllers.state.admission_context import AdmissionContext, blocker
from admission.controllers.state.lifecycle import not_before
from admission.controllers.watch.cluster_view import BY_NAMESPACE, ClusterView
from admission.controllers.watch.resources import Limit, completed, defect
from admission.controllers.watch.slice_index import SliceIndex
from admission.engine import features, model
from admission.engine.convert import convert_moves
from admission.engine.convert import convert_workloads as convert
from admission.engine.convert.convert_queues import goes_by_guess
from admission.engine.ledger.ledger import Ledger
from admission.engine.quota.charging import ResourceRules
from api.errors import InvalidObject
from api.meta import is_true, object_key
from api.names import GROUP, QUOTA_RESERVED
from api.queues import LocalQueue
from api.workloads import Workload, WorkloadSpec

Guess = Callable[[Workload], float | None]
"""Returns for how many seconds a waiting Workload will run at most; None if nothing is known."""


def no_guess(workload: Workload) -> float | None:
    """Knows nothing."""


class WorkloadConversion:
    """Converts Workloads; `rules`, `by_eviction` and `groups_outrank` are arguments of `convert.workload`.

    `guess` is asked where the ClusterQueue of a waiting Workload lets it overtake by that.
    """

    def __init__(
        self,
        views: ClusterView,
        slices: SliceIndex,
        rules: ResourceRules,
        *,
        by_eviction: bool,
        groups_outrank: bool,
        guess: Guess = no_guess,
    ) -> None:
        self._views, self._slices, self._rules = views, slices, rules
        self._by_eviction, self._groups_outrank = by_eviction, groups_outrank
        self._guess, self._annotations = guess, features.read_annotations()
        # By id of the spec, and for as long as a Workload has it.
        self._converted: dict[int, tuple[ReferenceType[WorkloadSpec], tuple[model.PodSet, ...]]] = {}

    def converted(self, workload: Workload) -> model.Workload:
        """Returns the Workload as the engine's value, with the reason why it must not be considered, if any. Raises
        InvalidObject.
        """
        local = self._views.local_queue_of(workload)
        reserved = is_true(workload.status.conditions, QUOTA_RESERVED)
        given, workload = workload, self._completed(workload)
        context = None if reserved else self._views.context(given)
        made = convert.workload(
            workload,
            cluster_queue=local.spec.cluster_queue if local else "",
            blocked=blocker(workload, context) if context else None,
            not_before=not_before(workload, context) if context else 0.0,
            defect=None if reserved else self._defect(given) or self._defect(workload),
            rules=self._rules,
            by_eviction=self._by_eviction,
            groups_outrank=self._groups_outrank,
            boosted=self._views.gates.priority_boost,
            pod_sets=None if workload.status.reclaimable_pods else self._pod_sets(workload),
            replaces=self._slices.replaces(workload),
            since=self._slices.since(workload),
            guess=self._allowed_guess(given, context),
            annotations=self._annotations,
        )
        made = self._with_terms(workload, local, made)
        return self._views.features.converted(workload, made)

    def _allowed_guess(self, workload: Workload, context: AdmissionContext | None) -> float | None:
        queue = context.cluster_queue if context is not None else None
        return self._guess(workload) if queue is not None and goes_by_guess(queue) else None

    def _with_terms(self, workload: Workload, local: LocalQueue | None, converted: model.Workload) -> model.Workload:
        """Completes the terms of moves by those of the LocalQueue and the WorkloadPriorityClass."""
        named = workload.spec.priority_class_ref
        name = named.name if named is not None and named.group == GROUP else ""
        priority_class = self._views.workload_priorities.objects.get(name)
        given = [one.metadata.annotations for one in (local, priority_class) if one is not None]
        terms = convert_moves.completed(converted.restart, given)
        return converted if terms is converted.restart else replace(converted, restart=terms)

    def _pod_sets(self, workload: Workload) -> tuple[model.PodSet, ...]:
        """Converts pod sets once for all Workloads that share a spec object (reading.py), however often they change."""
        spec = workload.spec
        if not convert.same_for_all(spec):
            return convert.pod_sets(workload, self._rules)
        kept = self._converted.get(key := id(spec))
        if kept is None:
            of_spec = ref(spec, lambda _: self._converted.pop(key, None))
            kept = self._converted[key] = (of_spec, convert.pod_sets(workload, self._rules))
        return kept[1]

    def _limits(self, workload: Workload) -> list[Limit]:
        ranges = self._views.limit_ranges.by_index(BY_NAMESPACE, workload.metadata.namespace or "")
        return [limit for each in sorted(ranges, key=lambda each: each.metadata.name) for limit in each.spec.limits]

    def _completed(self, workload: Workload) -> Workload:
        """Adds what the API server gives the pods. Unreadable fields are left to the conversion, which reports them."""
        try:
            return completed(workload, self._limits(workload), self._views.runtime_classes.objects)
        except (AttributeError, TypeError, ValueError):
            return workload

    def _defect(self, workload: Workload) -> str | None:
        """Returns what the API server would reject of the pods' resources; the conversion reports unreadable fields."""
        try:
            return defect(workload, self._limits(workload))
        except (msgspec.ValidationError, InvalidObject):
            return None


def leaving(ledger: Ledger, key: str) -> model.Workload | None:
    """Returns an evicted workload without quota of which pods still occupy nodes that respond; None for any other.

    Its allocation stays without a reservation of quota, marked as leaving, until they have left. Otherwise they would count as
    foreign pods in the way of the preemptor, which would evict more. Pods on nodes that do not respond are ignored, since they
    may stay forever.
    """
    charged = ledger.workload(key)
    if charged is None or charged.admission is None or not charged.evicted:
        return None
    if not ledger.bound.ending(key):
        return None
    pod_sets = tuple(replace(pod_set, usage={}) for pod_set in charged.admission.pod_sets)
    return replace(charged, admission=replace(charged.admission, pod_sets=pod_sets))


def payer_of(workload: Workload, local: LocalQueue | None) -> model.Payer | None:
    """Returns the queue that pays for the workload's bound pods: that of its admission, which a finished Workload still has, or
    else that of its LocalQueue; None without either.
    """
    admission = workload.status.admission
    queue = admission.cluster_queue if admission else local.spec.cluster_queue if local else ""
    if not queue:
        return None
    flavors = {each.name: each.flavors for each in admission.pod_set_assignments} if admission else {}
    return model.Payer(workload.key, queue, object_key(workload.metadata.namespace, workload.spec.queue_name), flavors)
