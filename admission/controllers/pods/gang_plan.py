"""Plans for gangs of dialects other than Kueue's: the plan of pod groups, with the gang's terms. Pure.

    fewer pods than the minimum  -> wait without a Workload, or with one that is not considered; report how many exist
    the minimum is reached       -> one Workload of exactly the present pods; while it waits it follows them, and is admitted
                                    with as many of them as there is room for, at least the minimum
    the gang has quota           -> as for pod groups; later pods join one by one, each with its own Workload
    too few are bound in time    -> the Workload is evicted, its quota is released, and the gang tries again later
    the minimum was bound        -> a condition records it and no timeout applies any more: when a member is lost, the
                                    others keep running, and the member's place is kept for its replacement
    the gang ended, pods come    -> they join, or form a new gang, depending on the match policy

A Sakkara group (sakkara_unit.py) has exactly its size: a surplus pod waits until a member fails or is deleted. The gang's
Workloads carry its queue position and its gang group as annotations. Each late joiner is a unit of one pod, planned like any
single pod (`pod_plan`). Late joiners also own the gang's Workload, so it stays while they run, and count toward the minimum.
Without the gang's Workload they continue with their own; if the gang is evicted, late joiners that still wait become ordinary
members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.finish import let_go
from admission.controllers.jobs.plan.pod_counts import admitted_counts
from admission.controllers.pods.actions import NOTHING, Action, PodGroupPlan, ReleasePod
from admission.controllers.pods.compose import adopt, is_group_workload
from admission.controllers.pods.gangs.gang import (
    GangTerms,
    GangUnit,
    LateUnit,
    backoff_message,
    counted,
    shortage,
    stopped,
)
from admission.controllers.pods.gangs.sakkara_unit import ExactUnit, unit_of
from admission.controllers.pods.gangs.schedule_timeout import ScheduleTimeout
from admission.controllers.pods.gangs.unbindable import LOOK_AGAIN, held_members, looks_again, short_of_members
from admission.controllers.pods.pod_plan import RULES, plan
from admission.controllers.pods.replacements import with_shortage
from admission.controllers.pods.workload_updates import labels_of
from admission.controllers.state import conditions
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, PlannedEvent, SetStatus
from admission.integrations.pods.gang import MatchPolicy
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import PodUnit, SortedMembers, sort_out
from api import names
from api.errors import InvalidObject
from api.meta import is_true
from api.workloads import PodSet, Workload

LateWorkloads = Mapping[str, Sequence[Workload]]
"""The Workloads of late joiners, by pod key."""


def plan_gang(
    unit: PodUnit,
    terms: GangTerms,
    workloads: Sequence[Workload],
    late_workloads: LateWorkloads,
    context: JobContext,
    now: float,
) -> PodGroupPlan:
    """Returns the gang's plan; `workloads` have the gang's name, `now` is in epoch seconds."""
    if not context.options.namespace_managed(unit.namespace):
        return NOTHING
    return _Gang(unit_of(unit, terms), terms, late_workloads, context, now).plan(workloads)


class _Gang:
    def __init__(
        self, unit: GangUnit, terms: GangTerms, late_workloads: LateWorkloads, context: JobContext, now: float
    ) -> None:
        self._terms, self._late_workloads = terms, late_workloads
        self._context, self._now = context, now
        held = held_members(unit.pods, context.claim_problem)
        self._held_by = list(held.values())
        self._looks_again = looks_again(unit.pods, held)
        self._unit = (
            unit.only([pod for pod in unit.pods if pod.key not in held]) if len(held) < len(unit.pods) else unit
        )
        self._all_held = self._unit is unit and bool(held)
        self._late_joiners = [pod for pod in unit.pods if late_workloads.get(pod.key)]
        """The late joiners that have a Workload."""

    def plan(self, workloads: Sequence[Workload]) -> PodGroupPlan:
        """Returns the plan; members that something else holds take no part in it."""
        made = self._planned(workloads)
        return replace(made, again_in=_earlier(made.again_in, LOOK_AGAIN)) if self._looks_again else made

    def _planned(self, workloads: Sequence[Workload]) -> PodGroupPlan:
        own = [workload for workload in workloads if is_group_workload(workload)]
        if len(own) < len(workloads):
            return plan(self._unit, workloads, self._context, self._now, RULES)  # reports that the name is taken
        if not own:
            surplus = self._split_surplus()
            return self._without_workload().followed(surplus)
        workload = own[0]
        if is_true(workload.status.conditions, names.FINISHED):
            return self._finished(workload)
        if not is_true(workload.status.conditions, names.QUOTA_RESERVED):
            surplus = self._split_surplus()
            return self._pending(workload).followed(surplus)
        return self._reserved(workload)

    def _without_late_joiners(self) -> Sequence[QueuedPod]:
        """Returns the pods without late joiners that have Workloads."""
        if not self._late_joiners:
            return self._unit.pods
        return [pod for pod in self._unit.pods if not self._late_workloads.get(pod.key)]

    # ---- groups of an exact size

    def _split_surplus(self) -> PodGroupPlan:
        """Removes surplus members from the unit; returns the plan for them."""
        if not isinstance(self._unit, ExactUnit):
            return NOTHING
        members, surplus = self._unit.members()
        waiting = self._plan_surplus(surplus)
        self._unit = self._unit.only(members)
        return waiting

    def _plan_surplus(self, surplus: Sequence[QueuedPod]) -> PodGroupPlan:
        """Plans for surplus pods: they wait with an event, and terminated or deleted ones are released."""
        unit, gone = self._unit, [pod for pod in surplus if not pod.lasting or pod.terminated]
        waiting = [pod for pod in surplus if pod not in gone]
        result = PodGroupPlan(tuple(ReleasePod(pod) for pod in gone if pod.held))
        if not waiting or not isinstance(unit, ExactUnit):
            return result
        roles = {pod.role for pod in unit.counting if pod not in waiting}
        if (strange := next((pod for pod in waiting if roles and pod.role not in roles), None)) is not None:
            error = str(unit.difference(strange))
            return result.followed(
                PodGroupPlan(events=(PlannedEvent(names.PodsHeldReason.UNLIKE_PODS, error, "Warning"),), note=error)
            )
        named = ", ".join(pod.metadata.name for pod in waiting[:3]) + (", ..." if len(waiting) > 3 else "")
        return result.followed(self._wait(f"the group has its {unit.total} pods; {len(waiting)} more wait: {named}"))

    # ---- before the gang has quota

    def _without_workload(self) -> PodGroupPlan:
        """Plans the gang's first Workload, or the rest of a gang whose Workload is gone."""
        if not self._late_joiners:
            return self._first_workload()
        rest = self._without_late_joiners()
        fresh = [pod for pod in rest if pod.lasting and not pod.terminated]
        if self._forms_new_gang(fresh):
            self._unit = self._unit.only(rest)
            return self._first_workload().followed(self._plan_late_joiners(self._late_joiners))
        gone = tuple(ReleasePod(pod) for pod in rest if pod.held and (pod.terminated or not pod.lasting))
        return PodGroupPlan(gone).followed(self._plan_late_joiners([*self._late_joiners, *fresh]))

    def _first_workload(self) -> PodGroupPlan:
        if (why := self._shortage()) is not None:
            gone = tuple(ReleasePod(pod) for pod in self._unit.pods if pod.held and (pod.deleted or pod.terminated))
            return PodGroupPlan(gone).followed(self._wait(why))
        if (why := backoff_message(self._terms, self._now)) is not None:
            gone = tuple(ReleasePod(pod) for pod in self._unit.pods if pod.held and not pod.lasting)
            return replace(PodGroupPlan(gone).followed(self._wait(why)), again_in=stopped(self._terms, self._now)[1])
        return self._annotated(plan(self._unit, (), self._context, self._now))

    def _shortage(self) -> str | None:
        free = 0 if self._all_held else sum(pod.lasting and not pod.succeeded for pod in self._unit.pods)
        return short_of_members(free, self._held_by, self._terms)

    @staticmethod
    def _wait(why: str) -> PodGroupPlan:
        return PodGroupPlan(events=(PlannedEvent(names.ReplacementReason.GANG_WAITING, why),), note=why)

    def _pending(self, workload: Workload) -> PodGroupPlan:
        """Plans for a waiting Workload, which follows the present pods if they are enough."""
        unit = self._unit
        eviction = is_true(workload.status.conditions, names.EVICTED)
        if not unit.suspended or (eviction and unit.running) or workload.metadata.deletion_timestamp:
            return plan(unit, [workload], self._context, self._now)
        if self._late_joiners:
            # Late joiners become ordinary members again.
            result = PodGroupPlan()
            for each in (own for pod in self._late_joiners for own in self._late_workloads[pod.key]):
                result = result.then(*let_go(each), DeleteWorkload(each))
            return result
        going = tuple(ReleasePod(pod) for pod in unit.pods if pod.held and not pod.lasting)
        why = self._shortage()
        status = with_shortage(workload, why, self._now)
        result = PodGroupPlan(going)
        if status is not workload.status:
            return result.then(SetStatus(workload, status)).followed(self._wait(why) if why else NOTHING)
        if why is not None:
            return result.followed(self._wait(why))
        if (follow := self._followed(workload)) is not None:
            return result.followed(follow)
        return result.followed(plan(unit.only(unit.counting), [workload], self._context, self._now))

    def _followed(self, workload: Workload) -> PodGroupPlan | None:
        """Returns the update of the Workload to its pods and terms, or None if it is up to date."""
        try:
            pod_sets = self._unit.pod_sets(topology=self._context.options.topology)
        except InvalidObject as error:
            return PodGroupPlan(events=(PlannedEvent("ErrWorkloadCompose", str(error), "Warning"),), note=str(error))
        patch: dict[str, object] = {}
        if _asked(workload.spec.pod_sets) != _asked(pod_sets):
            patch["spec"] = {"podSets": [pod_set.to_wire() for pod_set in pod_sets]}
        wanted, given = self._terms.annotations(), workload.metadata.annotations
        keys = dict.fromkeys((*wanted, names.GANG_GROUP, names.GANG_LEAST, names.SAKKARA_GROUP_ANNOTATION))
        if changed := {key: wanted.get(key) for key in keys if wanted.get(key) != given.get(key)}:
            patch["metadata"] = {"annotations": changed}
        if not patch:
            return None
        events = (
            (PlannedEvent("UpdatedWorkload", f"Updated Workload to the gang's pods: {workload.key}"),)
            if "spec" in patch
            else ()
        )
        return PodGroupPlan((PatchWorkload(workload, patch, events),))

    def _annotated(self, plan: PodGroupPlan, *, joins_late: bool = False) -> PodGroupPlan:
        """Adds the gang's annotations to Workloads that are created; `joins_late` omits what concerns the start."""
        terms = self._terms.annotations()
        if joins_late:
            for key in (names.GANG_GROUP, names.GANG_LEAST):
                terms.pop(key, None)

        def annotated(action: CreateWorkload) -> CreateWorkload:
            meta = action.workload.metadata
            annotations = {**meta.annotations, **terms}
            named = meta.model_copy(update={"annotations": annotations})
            return replace(action, workload=action.workload.model_copy(update={"metadata": named}))

        actions = tuple(annotated(each) if isinstance(each, CreateWorkload) else each for each in plan.actions)
        return replace(plan, actions=actions)

    # ---- while the gang has quota

    def _reserved(self, workload: Workload) -> PodGroupPlan:
        if adoption := self._adopted(workload):
            return adoption
        split = self._split(workload)
        members, late_joiners = [*split.kept, *split.replaced], [*self._late_joiners, *split.excess, *split.strange]
        if not members and (over := self._without_members(workload)):
            return over
        if taking := self._replace_members(workload, split.kept):
            return taking
        unit = self._unit.only(members)
        timeout = ScheduleTimeout(self._terms, self._unit.pods, self._late_joiners, self._now)
        if (whole := timeout.bound_whole(workload, unit, split)) is not None:
            return whole
        if (overdue := timeout.overdue(workload, unit)) is not None:
            return overdue
        # Deleted members no longer count and may go at once, except the last one.
        gone = [pod for pod in members if pod.deleted and not pod.running and not pod.succeeded]
        if len(gone) < len(members):
            unit = unit.only([pod for pod in members if pod not in gone])
        held = [pod for pod in gone if pod.held] if len(gone) < len(members) else []
        result = PodGroupPlan(tuple(ReleasePod(pod) for pod in held))
        if members:
            result = result.followed(plan(unit, [workload], self._context, self._now))
        left = timeout.time_left(workload, unit)
        result = replace(result, again_in=_earlier(result.again_in, left))
        if not is_true(workload.status.conditions, names.ADMITTED) or is_true(
            workload.status.conditions, names.EVICTED
        ):
            return result
        return result.followed(self._plan_late_joiners(self._without_successors(late_joiners, split.kept)))

    def _split(self, workload: Workload) -> SortedMembers:
        """Splits the pods into members and surplus, leaving out late joiners that have Workloads."""
        return sort_out(self._without_late_joiners(), admitted_counts(workload))

    def _replace_members(self, workload: Workload, kept: Sequence[QueuedPod]) -> PodGroupPlan | None:
        """Lets late joiners without quota replace members that are gone, since these need no further quota."""
        if workload.metadata.deletion_timestamp or self._terms.exact is not None:
            return None
        free = Counter(admitted_counts(workload))
        free.subtract(pod.role for pod in kept if pod.counts)
        actions: list[Action] = []
        for pod in self._late_joiners:
            own = self._late_workloads[pod.key]
            if free[pod.role] > 0 and pod.gated and not any(_has_quota(each) for each in own):
                free[pod.role] -= 1
                for each in own:
                    actions += (*let_go(each), DeleteWorkload(each))
        return PodGroupPlan(tuple(actions)) if actions else None

    def _without_successors(self, late_joiners: Sequence[QueuedPod], kept: Sequence[QueuedPod]) -> list[QueuedPod]:
        """Returns the late pods without those that will replace a member being deleted: as many as such members, oldest
        first."""
        leaving = Counter(pod.role for pod in kept if pod.deleted and not pod.succeeded)
        result = []
        for pod in sorted(late_joiners, key=lambda pod: (pod.created, pod.metadata.name)):
            if leaving[pod.role] > 0 and pod.gated and not self._late_workloads.get(pod.key):
                leaving[pod.role] -= 1
            else:
                result.append(pod)
        return result

    def _adopted(self, workload: Workload) -> PodGroupPlan | None:
        """Makes late joiners owners of the gang's Workload, which must not be deleted with the first members."""
        adoption = () if workload.metadata.deletion_timestamp else adopt(self._unit, workload, self._late_joiners)
        return PodGroupPlan(adoption) if adoption else None

    def _without_members(self, workload: Workload) -> PodGroupPlan | None:
        """Releases a Workload all of whose members are gone, or its quota after an eviction."""
        if workload.metadata.deletion_timestamp:
            return PodGroupPlan(let_go(workload))
        if not is_true(workload.status.conditions, names.EVICTED):
            return None
        given_back = conditions.released(workload.status, self._now, workload.metadata.generation)
        return PodGroupPlan((SetStatus(workload, given_back),))

    def _plan_late_joiners(self, late_joiners: Sequence[QueuedPod]) -> PodGroupPlan:
        """Plans each late pod as a unit of its own once the match policy lets it join."""
        if self._terms.exact is not None:
            return self._plan_surplus(late_joiners)
        result, open_to = NOTHING, self._may_join()
        for pod in late_joiners:
            known = self._late_workloads.get(pod.key, ())
            if not known and not open_to and pod.gated:
                continue
            alone = LateUnit.of_pod(pod, self._terms)
            result = result.followed(self._annotated(plan(alone, known, self._context, self._now), joins_late=True))
        if late_joiners and not open_to:
            pods = counted(self._unit.pods, self._terms.policy)
            return result.followed(self._wait(shortage(pods, self._terms) or ""))
        return result

    def _may_join(self) -> bool:
        """Reports whether pods may join the started gang."""
        if self._terms.policy is MatchPolicy.ONCE_SATISFIED:
            return True
        return shortage(counted(self._unit.pods, self._terms.policy), self._terms) is None

    # ---- after the gang has ended

    def _finished(self, workload: Workload) -> PodGroupPlan:
        fresh = [pod for pod in self._unit.pods if not pod.terminated and pod.lasting]
        ended = [pod for pod in self._unit.pods if pod not in fresh and not self._late_workloads.get(pod.key)]
        result = plan(self._unit.only(ended), [workload], self._context, self._now) if ended else NOTHING
        waiting = [pod for pod in fresh if not self._late_workloads.get(pod.key)]
        if self._forms_new_gang(waiting):
            if workload.metadata.deletion_timestamp is None:
                return result.then(*let_go(workload), DeleteWorkload(workload))
            return result.then(*let_go(workload))
        return result.followed(self._plan_late_joiners([*self._late_joiners, *waiting]))

    def _forms_new_gang(self, waiting: Sequence[QueuedPod]) -> bool:
        """Reports whether the pods form a new gang of the same name instead of joining the ended one."""
        once = self._terms.policy is MatchPolicy.ONCE_SATISFIED
        return bool(waiting) and not once and shortage(len(waiting), self._terms) is None


def _asked(pod_sets: Iterable[PodSet]) -> dict[str, object]:
    """Returns what may change of waiting pods, by pod set."""
    return {each.name: (each.count, each.topology_request, labels_of(each)) for each in pod_sets}


def _has_quota(workload: Workload) -> bool:
    return is_true(workload.status.conditions, names.QUOTA_RESERVED)


def _earlier(first: float | None, second: float | None) -> float | None:
    return min((seconds for seconds in (first, second) if seconds is not None), default=None)
