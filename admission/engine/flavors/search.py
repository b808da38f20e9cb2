"""Finds a flavor for each pod set by quota: cycle.md 4.4, with the messages of 4.6.

Pod sets are assigned in order, those of one placement group together, and each resource group of the ClusterQueue gives them
one flavor. Flavors are tried in the order of the ClusterQueue until the fungibility policy ends the search, but flavors whose
topology lacks the level of a placement constraint come last. Earlier pod sets of the workload count against the quota. The
search ignores nodes: the cycle places the pods afterwards, and if that fails, searches again with the flavor in `refused`.
Such a flavor is skipped like a flavor without quota, and its message becomes one of the reasons. So a workload gets the second
flavor if the nodes of the first have no capacity, and its message names both flavors if neither has. (Kueue tries no other
flavor in that case.)

If a request exceeds the free quota, the `oracle` says whether evictions could help. assign.py defines the result,
fungibility.py the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from admission.engine.flavors.assign import (
    Attempt,
    FlavorAssignment,
    Mode,
    Pick,
    PodSetFlavors,
    PreemptionOracle,
    mildest,
    most_severe,
)
from admission.engine.flavors.eligible import lacks_level, unsuitable, wants_topology
from admission.engine.flavors.fungibility import FlavorTrial, rank, search_ends
from admission.engine.model import (
    LARGEST,
    PODS,
    ClusterQueue,
    Flavor,
    FlavorResource,
    PodSet,
    ResourceGroup,
    Workload,
    to_text,
)
from admission.engine.quota.tree import QuotaTree
from admission.engine.reasons import Reason

Refused = Mapping[tuple[str, str], str]
"""Maps (pod set, flavor) to the message of the placement that failed."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Limits of a search."""

    refused: Refused = field(default_factory=dict)
    """Flavors to skip, with the message of the placement."""
    tried: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The position where the last search ended, by pod set and resource (`FlavorAssignment.tried`); the search continues after
    it."""
    pinned: Mapping[tuple[str, str], str] | None = None
    """The only flavor to consider, by pod set and resource."""
    kept: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The flavor that its running pods have, by pod set and resource."""
    fair: bool = False
    """Whether fair sharing is on, which lets a ClusterQueue that reclaims preempt while it borrows."""


@dataclass(slots=True)
class QuotaQueries:
    """What a search asked the quota tree: the amounts that are free, by flavor and resource, and whether one was short.

    While these amounts stay free at the same borrowing level, and none was short, the search finds the same again.
    """

    free: list[tuple[FlavorResource, int]] = field(default_factory=list)
    short: bool = False


@dataclass(slots=True)
class FlavorWalk:
    """How far the search for some pod sets came in the flavors of a resource group, with what was found of each flavor."""

    names: list[str]
    """The flavors."""
    refused: Refused
    usage: dict[FlavorResource, int]
    attempts: list[Attempt] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    queries: QuotaQueries = field(default_factory=QuotaQueries)
    before: list[tuple[FlavorTrial, Reason | None, int, int, bool]] = field(default_factory=list)
    """The state before each flavor: the best trial, the mildest reason, and the lengths of `reasons` and `free`."""

    def same_until(self, names: Sequence[str], refused: Refused, usage: Mapping[FlavorResource, int]) -> int:
        """Returns how many of the first flavors have the same answer as before, without the one at which the search ended."""
        if names != self.names or usage != self.usage:
            return 0
        changed = {flavor for (_, flavor), _ in self.refused.items() ^ refused.items()}
        first = min((at for at, name in enumerate(names) if name in changed), default=len(names))
        return min(first, max(0, len(self.before) - 1))

    def step(self, best: FlavorTrial, why: Reason | None) -> None:
        """Notes the state before the next flavor."""
        self.before.append((best, why, len(self.reasons), len(self.queries.free), self.queries.short))

    def go_back(self, index: int) -> tuple[FlavorTrial, Reason | None]:
        """Forgets what was found from this flavor on; returns the best trial and the mildest reason of those before it."""
        best, why, reasons, free, short = self.before[index]
        del self.before[index:], self.attempts[index:], self.reasons[reasons:], self.queries.free[free:]
        self.queries.short = short
        return best, why


Searches = dict[tuple[str, str], FlavorWalk]
"""The searches for one workload on a ledger that stays as it is, by first pod set and resource."""

EVERYWHERE = Scope()
_FITS = FlavorTrial(Mode.FIT)
"""The trial of a request that fits without borrowing; no trial ranks above it."""


def topology_implied(queue: ClusterQueue, flavors: Mapping[str, Flavor]) -> bool:
    """Reports whether all flavors of the ClusterQueue have a topology, so that each of its workloads is placed on one."""
    names = queue.flavors
    for name in names:
        if (flavor := flavors.get(name)) is None or flavor.topology is None:
            return False
    return bool(names)


def total_requests(queue: ClusterQueue, pod_set: PodSet) -> dict[str, int]:
    """Returns the total requests of the pod set by resource, saturated at 64 bits.

    `pods` is included if the ClusterQueue has quota for it.
    """
    single = pod_set.requests if pod_set.charged is None else pod_set.charged
    count = pod_set.count
    totals = {resource: min(LARGEST, amount * count) for resource, amount in single.items()}
    if queue.group_of(PODS) is not None:
        totals[PODS] = pod_set.count
    return totals


class FlavorSearch:
    """The search for one workload in the flavors of its queue."""

    def __init__(
        self,
        queue: ClusterQueue,
        flavors: Mapping[str, Flavor],
        quota: QuotaTree,
        oracle: PreemptionOracle,
        scope: Scope = EVERYWHERE,
        queries: QuotaQueries | None = None,
        searches: Searches | None = None,
    ) -> None:
        self.queue, self.flavors, self.quota, self.oracle, self.scope = queue, flavors, quota, oracle, scope
        self.queries = QuotaQueries() if queries is None else queries
        self._searches = {} if searches is None or scope.pinned is not None or scope.kept or scope.tried else searches
        self.implied = topology_implied(queue, flavors)

    def assign(self, workload: Workload) -> FlavorAssignment:
        """Returns the flavors of the workload's pod sets, up to the first pod set without one."""
        usage: dict[FlavorResource, int] = {}
        pod_sets_with_flavors: list[PodSetFlavors] = []
        for members in placement_groups(workload.pod_sets):
            pod_sets_with_flavors += self._assign_group(members, usage)
            if pod_sets_with_flavors[-1].mode is Mode.NO_FIT:
                break
        return FlavorAssignment(tuple(pod_sets_with_flavors), usage)

    def _assign_group(self, members: Sequence[PodSet], usage: dict[FlavorResource, int]) -> list[PodSetFlavors]:
        requests = {member.name: total_requests(self.queue, member) for member in members}
        total = requests[members[0].name] if len(members) == 1 else _sum(requests.values())
        sum_: FlavorTrial | None = None
        for resource in sorted(total):
            if sum_ is not None and resource in sum_.picks:
                continue
            group = self.queue.group_of(resource)
            if group is None:
                if not total[resource] or self.queue.ignores_uncovered:
                    continue
                missing = f"resource {resource} unavailable in ClusterQueue"
                return self._failed(members, requests, FlavorTrial.refusal(missing, Reason.NO_MATCHING_FLAVOR))
            outcome = self._search(group, resource, members, total, usage)
            if not outcome.picks:
                return self._failed(members, requests, outcome)
            sum_ = outcome if sum_ is None else _both(sum_, outcome)
        sum_ = sum_ or FlavorTrial(Mode.FIT)
        for resource, pick in sum_.picks.items():
            key = (pick.flavor, resource)
            usage[key] = usage.get(key, 0) + total[resource]
        return [self._member(member, requests[member.name], sum_) for member in members]

    def _failed(
        self, members: Sequence[PodSet], requests: Mapping[str, Mapping[str, int]], why: FlavorTrial
    ) -> list[PodSetFlavors]:
        reason = why.reason or Reason.NO_MATCHING_FLAVOR
        return [
            PodSetFlavors(m.name, {}, requests[m.name], why.reasons, reason, attempts=why.attempts) for m in members
        ]

    def _member(self, member: PodSet, requests: Mapping[str, int], trial: FlavorTrial) -> PodSetFlavors:
        own, reason, error, topology = trial.picks, trial.reason, None, None
        if not own.keys() <= requests.keys():
            own = {resource: pick for resource, pick in own.items() if resource in requests}
        if member.count and wants_topology(member, self.implied):
            # A member without requests is placed on the flavor of its group.
            names = {p.flavor for p in (own or trial.picks).values() if self.flavors[p.flavor].topology is not None}
            if len(names) == 1:
                (topology,) = names
            else:
                several = f"more than one TAS flavor assigned: {', '.join(sorted(names))}"
                reason, error = Reason.NO_MATCHING_FLAVOR, several if names else "no TAS flavor assigned"
        return PodSetFlavors(member.name, own, requests, trial.reasons, reason, error, topology, trial.attempts)

    # ---- one resource group

    def _search(
        self,
        group: ResourceGroup,
        resource: str,
        members: Sequence[PodSet],
        total: Mapping[str, int],
        usage: Mapping[FlavorResource, int],
    ) -> FlavorTrial:
        """Returns the best trial for the resources of the group; positions of the last search are those of `resource`.

        The flavors before the first one that was refused since are not tried again.
        """
        wanted = {name: total[name] for name in sorted(group.resources) if name in total}
        policy, names, key = self.queue.fungibility, self._in_order(group, members), (members[0].name, resource)
        first, last = self.scope.tried.get(key, -1) + 1, len(names) - 1
        best, why, walk = FlavorTrial(Mode.NO_FIT), None, self._searches.get(key)
        if walk is not None and (same := walk.same_until(names, self.scope.refused, usage)):
            first, (best, why) = same, walk.go_back(same)
            walk.refused = dict(self.scope.refused)
        else:
            walk = self._searches[key] = FlavorWalk(names, dict(self.scope.refused), dict(usage))
        queries, self.queries = self.queries, walk.queries
        index = first - 1
        for index in range(first, last + 1):
            walk.step(best, why)
            name = names[index]
            tried = self._try(name, group, members, wanted, usage)
            walk.attempts.append(
                Attempt(name, tried.mode, tried.level, tried.reasons, tried.reason, tried.needed_quota)
            )
            walk.reasons += tried.reasons
            if tried.reason is not None:
                why = tried.reason if why is None else mildest((why, tried.reason))
            if search_ends(tried, policy):
                best = tried
                break
            if tried.mode is Mode.NO_FIT:
                continue
            if best.mode is Mode.NO_FIT or rank(tried, policy) > rank(best, policy):
                best = tried
        self.queries = queries
        queries.free += walk.queries.free
        queries.short |= walk.queries.short
        picks = best.picks
        if index != last:
            picks = {name: replace(pick, tried=index) for name, pick in picks.items()}
        if best.mode is Mode.FIT:
            return FlavorTrial(best.mode, best.level, picks, (), None, tuple(walk.attempts))
        return FlavorTrial(best.mode, best.level, picks, tuple(walk.reasons), why, tuple(walk.attempts))

    def _in_order(self, group: ResourceGroup, members: Sequence[PodSet]) -> list[str]:
        """Returns the flavors in the order to try. Where the level of a soft constraint is missing, it would be ignored."""
        names = [quotas.flavor for quotas in group.flavors]
        shaped = [member for member in members if member.topology is not None and member.topology.constraints]
        if not shaped:
            return names

        def lacking(name: str) -> bool:
            flavor = self.flavors.get(name)
            return flavor is not None and any(lacks_level(member, flavor) for member in shaped)

        return sorted(names, key=lacking)

    def _try(
        self,
        name: str,
        group: ResourceGroup,
        members: Sequence[PodSet],
        wanted: Mapping[str, int],
        usage: Mapping[FlavorResource, int],
    ) -> FlavorTrial:
        scope = self.scope
        if scope.pinned is not None and (elsewhere := self._pinned_elsewhere(name, members, wanted)) is not None:
            return FlavorTrial(Mode.NO_FIT, reasons=(elsewhere,))
        if scope.kept and (before := self._kept_elsewhere(name, members, wanted)) is not None:
            text = f"could not assign {name} flavor since the original workload is assigned: {before}"
            return FlavorTrial.refusal(text, Reason.NO_MATCHING_FLAVOR)
        flavor = self.flavors.get(name)
        if flavor is None:
            return FlavorTrial.refusal(f"flavor {name} not found", Reason.NO_MATCHING_FLAVOR)
        for member in members:
            if (mismatch := unsuitable(member, flavor, group.resources, self.implied)) is not None:
                return FlavorTrial.refusal(mismatch, Reason.NO_MATCHING_FLAVOR)
            if scope.refused and (no_place := scope.refused.get((member.name, name))) is not None:
                return FlavorTrial.refusal(no_place, Reason.TOPOLOGY_PLACEMENT_FAILED)
        return self._try_quota(name, wanted, usage)

    def _pinned_elsewhere(self, name: str, members: Sequence[PodSet], wanted: Iterable[str]) -> str | None:
        pinned = self.scope.pinned
        if pinned is None:
            return None
        for resource in wanted:
            if not any(pinned.get((member.name, resource)) == name for member in members):
                return f"skipping flavor {name} as it is not found in the nomination mapping for resource {resource}"
        return None

    def _kept_elsewhere(self, name: str, members: Sequence[PodSet], wanted: Iterable[str]) -> str | None:
        """Returns the flavor, other than `name`, that running pods of a member have (cycle.md 4.4), or None."""
        kept = (self.scope.kept.get((member.name, resource), name) for member in members for resource in wanted)
        return next((flavor for flavor in kept if flavor != name), None)

    def _try_quota(self, name: str, wanted: Mapping[str, int], usage: Mapping[FlavorResource, int]) -> FlavorTrial:
        worst = _FITS
        picks: dict[str, Pick] = {}
        reasons: tuple[str, ...] = ()
        for resource, amount in wanted.items():
            fr = (name, resource)
            one = self._fit(fr, amount, usage.get(fr, 0))
            reasons += one.reasons
            if one.mode is Mode.NO_FIT:
                return FlavorTrial(
                    Mode.NO_FIT, one.level, reasons=reasons, reason=one.reason, needed_quota=one.needed_quota
                )
            if one is not _FITS and rank(one, self.queue.fungibility) < rank(worst, self.queue.fungibility):
                worst = one
            picks[resource] = Pick(name, one.mode, one.level)
        return FlavorTrial(worst.mode, worst.level, picks, reasons, worst.reason, needed_quota=worst.needed_quota)

    def _fit(self, fr: FlavorResource, amount: int, assumed: int) -> FlavorTrial:
        flavor, resource = fr
        queue, needed = self.queue.name, assumed + amount
        most = self.quota.potential(queue, fr)
        if needed > most:
            return FlavorTrial.refusal(
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({to_text(resource, assumed)}) + current podset request ({to_text(resource, amount)}) "
                f"> maximum capacity ({to_text(resource, most)})",
                Reason.EXCEEDS_MAX_QUOTA,
            )
        borrowing = self.quota.borrowing(queue, fr, needed)
        missing = needed - self.quota.available(queue, fr)
        if missing <= 0:
            self.queries.free.append((fr, needed))
            return FlavorTrial(Mode.FIT, borrowing.level) if borrowing.level else _FITS
        self.queries.short = True
        more = to_text(resource, missing)
        text = f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"
        if not (self.quota.nominal(queue, fr) >= needed or borrowing.below_root or self._preempts_while_borrowing()):
            return FlavorTrial(
                Mode.NO_FIT,
                borrowing.level,
                reasons=(text,),
                reason=Reason.WAITING_FOR_QUOTA,
                needed_quota=(fr, needed),
            )
        mode, level = self.oracle.simulate(queue, fr, needed)
        return FlavorTrial(mode, level, reasons=(text,), reason=Reason.WAITING_FOR_QUOTA, needed_quota=(fr, needed))

    def _preempts_while_borrowing(self) -> bool:
        policy = self.queue.preemption
        if policy.borrow_policy != "Never" or policy.keeps_nominal:
            return True
        return self.scope.fair and policy.reclaim_within_cohort != "Never"


def _both(first: FlavorTrial, second: FlavorTrial) -> FlavorTrial:
    """Returns the combined trial of two resource groups of the same pod sets."""
    return FlavorTrial(
        min(first.mode, second.mode),
        max(first.level, second.level),
        {**first.picks, **second.picks},
        first.reasons + second.reasons,
        most_severe((first.reason, second.reason)),
        first.attempts + second.attempts,
    )


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = min(LARGEST, total.get(resource, 0) + amount)
    return total


def placement_groups(pod_sets: Sequence[PodSet]) -> Iterator[list[PodSet]]:
    """Yields the pod sets by placement group, in the order of the first pod set of each group."""
    if len(pod_sets) == 1:
        yield list(pod_sets)
        return
    keys: dict[str, int] = {}

    def place(item: tuple[int, PodSet]) -> int:
        index, pod_set = item
        group = pod_set.topology.group if pod_set.topology else None
        return index if group is None else keys.setdefault(group, index)

    ordered = sorted(enumerate(pod_sets), key=place)
    for _, members in groupby(ordered, key=place):
        yield [pod_set for _, pod_set in members]
