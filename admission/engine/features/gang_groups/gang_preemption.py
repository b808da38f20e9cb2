"""The victims whose eviction lets a whole GangGroup start. It evicts nothing unless every member then provably fits.

The group preempts with the priority and age of its least important and youngest member. Its members of one ClusterQueue
request capacity as one workload with all their pod sets, so that the preemption engine chooses victims for all of them at
once. The members of the next queue follow after the first ones are charged. Then:

1. *whole*: the GangGroup of a victim, and the late joiners of its gang, are evicted with it, because they started together. If
   no member of this group may evict one of them, all of them stay.
2. *proved*: the members are fitted again, all at once, with all victims removed (gang_fit.py). Only then do the victims count.
3. *spared*: victims for several queues may make each other unnecessary. A victim beside which the group fits stays, the most
   expensive one first.

The members of one queue may take capacity that only another queue's members can use. If the search fails for that reason,
every workload that the members may evict in their own queues is removed, and as many as possible are put back.

The search runs in trials and leaves the ledger as it was. Called by groups.py for groups that do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.engine.cycle.nominate import Nominator
from admission.engine.decision import PreemptionReason, Victim
from admission.engine.features.gang_groups.gang_fit import Fitting, GroupNotStarted
from admission.engine.flavors.assign import Preemptions
from admission.engine.flavors.search import Scope
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, PodSet, Workload
from admission.engine.preemption.candidates import allowed
from admission.engine.preemption.cost import cost_of
from admission.engine.queue.cluster_queue import order_of

Fit = Callable[[Sequence[Workload]], Fitting | GroupNotStarted]
Part = tuple[ClusterQueue, Workload]
"""What waits in one queue, as one workload."""
VictimGroups = dict[frozenset[str], tuple[Victim, ...]]
"""Workloads that leave together, by their keys."""

MOST_CHECKS: Final = 64
"""How many smaller sets of victims are tried at most; each trial places all members."""


@dataclass(frozen=True, slots=True)
class GangPreemption:
    """The nominations of all members once the victims have left.

    Without victims: once the victims of other preemptors have left.
    """

    nominations: Fitting
    victims: tuple[Victim, ...] = ()

    @property
    def message(self) -> str:
        """The message for the condition: what the victims make room for."""
        return f"{len(self.nominations)} gangs of the group start together"


class GangPreemptor:
    """Searches on the ledger as it stands.

    `fit` charges all members or returns why one does not fit. `now` is epoch seconds.
    """

    def __init__(self, ledger: Ledger, preemptions: Preemptions, now: float, fit: Fit, *, fair: bool) -> None:
        self._ledger, self._now, self._fit, self._fair = ledger, now, fit, fair
        self._preemptions = preemptions
        self._nominator = Nominator(ledger, preemptions, now, partial=False)

    def choose(self, members: Sequence[Workload], *, others_leave: bool) -> GangPreemption | None:
        """Returns the preemption for the waiting members; None if no eviction would help.

        `others_leave`: victims of other preemptors free more capacity than there was.
        """
        if others_leave and (fitting := self._without((), members)) is not None:
            return GangPreemption(fitting)
        parts = self._parts(members)
        with self._ledger.trial():
            for key in {key for member in members if member.gang for key in member.gang.together}:
                self._ledger.holds.protect(key)
            for groups in (self._chosen(parts), self._all(parts)):
                if groups and (fitting := self._without(groups, members)) is not None:
                    return self._preemption(groups, fitting, members, alone=len(parts) == 1)
        return None

    def _preemption(
        self, groups: VictimGroups, fitting: Fitting, members: Sequence[Workload], *, alone: bool
    ) -> GangPreemption:
        """Returns the preemption without unneeded victims. `alone`: the victims were chosen as the cheapest for all members at
        once.
        """
        if not alone or any(len(group) > 1 for group in groups):
            fewer = self._without_unneeded(groups, members)
            fitted = self._without(fewer, members)
            if fitted is not None:
                groups, fitting = fewer, fitted
        return GangPreemption(fitting, tuple(victim for group in groups.values() for victim in group))

    def _parts(self, members: Iterable[Workload]) -> list[Part]:
        """Returns one workload for each queue, with the pod sets of all its members."""
        by_queue: dict[str, list[Workload]] = {}
        line = sorted(members, key=order_of)
        for member in line:
            by_queue.setdefault(member.cluster_queue, []).append(member)
        parts = []
        for name, some in by_queue.items():
            if (queue := self._ledger.quota.spec(name)) is not None:
                parts.append((queue, _combined(some, line)))
        return parts

    # ---- chosen

    def _chosen(self, parts: Sequence[Part]) -> VictimGroups | None:
        """Returns the victims, each with the workloads that leave with it.

        A workload whose group may not be evicted is protected, and the search is repeated without it. The part that finds no
        victims goes first in the next try, as in gang_fit.py.
        """
        line, blamed = list(parts), set[str]()
        while True:
            answer = self._attempt(line)
            if isinstance(answer, dict):
                return answer
            if isinstance(answer, str):
                self._ledger.holds.protect(answer)
                continue
            name = answer[0].name
            if name in blamed or answer is line[0]:
                return None
            blamed.add(name)
            line.sort(key=lambda part: part is not answer)

    def _all(self, parts: Sequence[Part]) -> VictimGroups | None:
        """Returns every workload that the members may evict in their own queues: one part may take the capacity of another."""
        if len(parts) < 2:
            return None
        groups: VictimGroups = {}
        for queue, part in parts:
            policy = queue.preemption
            for allocation in self._ledger.charged_to(queue.name) if not policy.keeps_nominal else ():
                other = allocation.workload
                if other.evicted or allowed(part, other, policy.within_cluster_queue):
                    group = self._victim_group(Victim(other.key, PreemptionReason.IN_CLUSTER_QUEUE), parts)
                    if group is not None:
                        groups[frozenset(one.workload for one in group)] = group
        return groups

    def _attempt(self, parts: Sequence[Part]) -> VictimGroups | Part | str:
        """Returns the victim groups; or the part for which no workload can leave, or the key of a workload that must be
        protected.
        """
        groups: VictimGroups = {}
        with self._ledger.trial():
            for each in parts:
                queue, part = each
                nomination = self._nominator.nominate(part, queue, Scope(fair=self._fair))
                if not nomination.starts:
                    return each
                for victim in nomination.victims:
                    if any(victim.workload in group for group in groups):
                        continue  # it goes with another one
                    group = self._victim_group(victim, parts)
                    if group is None:
                        return victim.workload
                    groups[frozenset(one.workload for one in group)] = group
                self._leave(groups)
                self._ledger.holds.put(Hold.of(HoldKind.GANG_PART, part, nomination.admission()))
        return groups

    def _victim_group(self, victim: Victim, parts: Sequence[Part]) -> tuple[Victim, ...] | None:
        """Returns the workloads that leave with the victim, the victim first; None if one of them may not be evicted."""
        first = self._ledger.workload(victim.workload)
        if first is None or first.gang is None or first.gang.joins:
            return (victim,)
        gangs = [w for key in first.gang.together if (w := self._ledger.workload(key)) is not None] or [first]
        uids = {gang.gang.uid for gang in gangs if gang.gang is not None}
        others = [w for w in self._allocations() if w.gang is not None and w.gang.uid in uids and w.key != first.key]
        if all(other.evicted or self._may_go(other, parts) for other in others):
            return (victim, *(Victim(other.key, victim.claim) for other in others))
        return None

    def _allocations(self) -> Iterable[Workload]:
        names = sorted({admission.cluster_queue for admission in self._ledger.admissions.values()})
        return (allocation.workload for name in names for allocation in self._ledger.charged_to(name))

    def _may_go(self, other: Workload, parts: Sequence[Part]) -> bool:
        admission = self._ledger.admission(other.key)
        return admission is not None and any(
            allowed(part, other, policy)
            for queue, part in parts
            if (policy := self._policy(queue, admission.cluster_queue)) is not None
        )

    def _policy(self, queue: ClusterQueue, holder: str) -> str | None:
        """Returns the policy that lets this queue evict workloads of the holder's queue."""
        policy = queue.preemption
        if holder == queue.name:
            return policy.within_cluster_queue
        related = self._ledger.quota.tree_of(holder) == self._ledger.quota.tree_of(queue.name)
        return policy.reclaim_within_cohort if related else None

    # ---- proved and spared

    def _leave(self, groups: Collection[Iterable[str]]) -> None:
        for group in groups:
            for key in group:
                self._ledger.remove_with_pods(key)

    def _without(self, groups: Collection[Iterable[str]], members: Sequence[Workload]) -> Fitting | None:
        """Returns the nominations of the members with these victims removed; None if they do not all fit."""
        with self._ledger.trial():
            self._leave(groups)
            fitting = self._fit(members)
        return None if isinstance(fitting, GroupNotStarted) else fitting

    def _without_unneeded(self, groups: VictimGroups, members: Sequence[Workload]) -> VictimGroups:
        """Only the victims that are needed. As many of the most expensive as possible stay; the next one is needed; then the
        same with the rest.

        More capacity never makes a placement impossible, so bisection finds that number.
        """
        line, needed, checks = self._most_expensive_first(groups), list[frozenset[str]](), MOST_CHECKS
        while line and self._without(needed, members) is None:
            low, high = 0, len(line)
            while high - low > 1 and checks > 0:
                middle, checks = (low + high) // 2, checks - 1
                if self._without([*needed, *line[middle:]], members) is not None:
                    low = middle
                else:
                    high = middle
            if checks <= 0:
                needed += line[low:]
                break
            needed.append(line[low])
            line = line[low + 1 :]
        return {keys: groups[keys] for keys in needed}

    def _most_expensive_first(self, groups: Mapping[frozenset[str], object]) -> list[frozenset[str]]:
        def cost(group: frozenset[str]) -> tuple[object, ...]:
            victims = (w for key in sorted(group) if (w := self._ledger.workload(key)) is not None)
            return (cost_of(victims, self._now), sorted(group))

        return sorted(groups, key=cost, reverse=True)


def _combined(members: Sequence[Workload], line: Sequence[Workload]) -> Workload:
    """Returns one workload with all pod sets of the members, and the priority and age of the last of the group."""
    pod_sets = tuple(_renamed(index, pod_set) for index, one in enumerate(members) for pod_set in one.pod_sets)
    last = line[-1]
    return replace(members[0], pod_sets=pod_sets, priority=last.priority, queued=max(each.queued for each in line))


def _renamed(index: int, pod_set: PodSet) -> PodSet:
    """Returns the pod set under a name that no other member has; it starts with all its pods."""
    return replace(pod_set, name=f"{index}.{pod_set.name}", min_count=None)
