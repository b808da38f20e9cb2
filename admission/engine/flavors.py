"""Which flavor each pod set would use, and how well that fits the quota: cycle.md 4.4, with its messages (4.6).

Pod sets are taken in order, those of one placement group together; each resource group of the queue gives them one flavor.
The flavors are tried in the queue's order, and the search ends where the fungibility policy says. What earlier pod sets of
the workload took counts against the quota. It looks at quota only: whether the nodes of the flavor hold the pods is asked
afterwards (cycle.py). A flavor that failed there comes back in `refused` and is passed over like one without quota, its
message among the reasons; so a workload gets into the second flavor when the first is too full or too torn to hold it,
and hears of both when neither does. (The peer tries no other flavor in that case.)

A request beyond the free quota might be met by evicting others: the `oracle` is asked. What comes of it is in assign.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from admission.engine.assign import FlavorAssignment, Mode, Pick, PodSetFlavors, PreemptionOracle, mildest, most_severe
from admission.engine.decision import Reason
from admission.engine.eligible import unsuitable, wants_topology
from admission.engine.model import (
    PODS,
    ClusterQueue,
    Flavor,
    FlavorResource,
    FungibilityPolicy,
    PodSet,
    ResourceGroup,
    Workload,
    to_text,
)
from admission.engine.quota import QuotaTree

Refused = Mapping[tuple[str, str], str]
"""(pod set, flavor) to the placement's message, where it was tried in vain."""


def topology_implied(queue: ClusterQueue, flavors: Mapping[str, Flavor]) -> bool:
    """Whether all of the queue's flavors have a topology, so that whoever comes here is placed on one."""
    names = queue.flavors
    return bool(names) and all(name in flavors and flavors[name].topology is not None for name in names)


def total_requests(queue: ClusterQueue, pod_set: PodSet) -> dict[str, int]:
    """What the whole pod set requests; its pods are counted where the queue gives quota for pods."""
    totals = {resource: amount * pod_set.count for resource, amount in pod_set.requests.items()}
    if queue.group_of(PODS) is not None:
        totals[PODS] = pod_set.count
    return totals


class FlavorSearch:
    """One workload's search through the flavors of its queue."""

    def __init__(
        self,
        queue: ClusterQueue,
        flavors: Mapping[str, Flavor],
        quota: QuotaTree,
        oracle: PreemptionOracle,
        refused: Refused,
    ) -> None:
        self.queue, self.flavors, self.quota, self.oracle, self.refused = queue, flavors, quota, oracle, refused
        self.implied = topology_implied(queue, flavors)

    def assign(self, workload: Workload) -> FlavorAssignment:
        """Flavors for the workload's pod sets."""
        usage: dict[FlavorResource, int] = {}
        found: list[PodSetFlavors] = []
        for members in _groups(workload.pod_sets):
            found += self._assign_group(members, usage)
            if found[-1].mode is Mode.NO_FIT:
                break
        return FlavorAssignment(tuple(found), usage)

    def _assign_group(self, members: Sequence[PodSet], usage: dict[FlavorResource, int]) -> list[PodSetFlavors]:
        requests = {member.name: total_requests(self.queue, member) for member in members}
        total = _sum(requests.values())
        picks: dict[str, Pick] = {}
        reasons: list[str] = []
        reason: Reason | None = None
        for resource in sorted(total):
            if resource in picks:
                continue
            group = self.queue.group_of(resource)
            if group is None:
                if not total[resource]:
                    continue
                lacking = f"resource {resource} unavailable in ClusterQueue"
                return self._failed(members, requests, [lacking], Reason.NO_MATCHING_FLAVOR)
            outcome = self._search(group, members, total, usage)
            if not outcome.picks:
                return self._failed(members, requests, outcome.reasons, outcome.reason)
            picks.update(outcome.picks)
            reasons += outcome.reasons
            reason = most_severe((reason, outcome.reason))
        for resource, pick in picks.items():
            key = (pick.flavor, resource)
            usage[key] = usage.get(key, 0) + total[resource]
        return [self._member(member, requests[member.name], picks, tuple(reasons), reason) for member in members]

    def _failed(
        self,
        members: Sequence[PodSet],
        requests: Mapping[str, Mapping[str, int]],
        reasons: Sequence[str],
        reason: Reason | None,
    ) -> list[PodSetFlavors]:
        why = reason or Reason.NO_MATCHING_FLAVOR
        return [PodSetFlavors(m.name, {}, requests[m.name], tuple(reasons), why) for m in members]

    def _member(
        self,
        member: PodSet,
        requests: Mapping[str, int],
        picks: Mapping[str, Pick],
        reasons: tuple[str, ...],
        reason: Reason | None,
    ) -> PodSetFlavors:
        own = {resource: pick for resource, pick in picks.items() if resource in requests}
        if not wants_topology(member, self.implied) or not member.count:
            return PodSetFlavors(member.name, own, requests, reasons, reason)
        # a member that requests nothing goes where its group goes
        names = sorted({p.flavor for p in (own or picks).values() if self.flavors[p.flavor].topology is not None})
        if len(names) == 1:
            return PodSetFlavors(member.name, own, requests, reasons, reason, topology=names[0])
        error = f"more than one TAS flavor assigned: {', '.join(names)}" if names else "no TAS flavor assigned"
        return PodSetFlavors(member.name, own, requests, reasons, Reason.NO_MATCHING_FLAVOR, error)

    # ---- one resource group

    def _search(
        self,
        group: ResourceGroup,
        members: Sequence[PodSet],
        total: Mapping[str, int],
        usage: Mapping[FlavorResource, int],
    ) -> _Try:
        wanted = {resource: total[resource] for resource in sorted(group.resources) if resource in total}
        best = _Try(Mode.NO_FIT)
        reasons: list[str] = []
        why: Reason | None = None
        for quotas in group.flavors:
            tried = self._try(quotas.flavor, group, members, wanted, usage)
            reasons += tried.reasons
            why = mildest((why, tried.reason))
            if _search_ends(tried, self.queue.fungibility):
                best = tried
                break
            if _rank(tried, self.queue.fungibility) > _rank(best, self.queue.fungibility):
                best = tried
        if best.mode is Mode.FIT:
            return best
        return _Try(best.mode, best.level, best.picks, tuple(reasons), why)

    def _try(
        self,
        name: str,
        group: ResourceGroup,
        members: Sequence[PodSet],
        wanted: Mapping[str, int],
        usage: Mapping[FlavorResource, int],
    ) -> _Try:
        flavor = self.flavors.get(name)
        if flavor is None:
            return _Try.refusal(f"flavor {name} not found", Reason.NO_MATCHING_FLAVOR)
        for member in members:
            if (mismatch := unsuitable(member, flavor, group.resources, self.implied)) is not None:
                return _Try.refusal(mismatch, Reason.NO_MATCHING_FLAVOR)
            if (no_place := self.refused.get((member.name, name))) is not None:
                return _Try.refusal(no_place, Reason.TOPOLOGY_PLACEMENT_FAILED)
        return self._try_quota(name, wanted, usage)

    def _try_quota(self, name: str, wanted: Mapping[str, int], usage: Mapping[FlavorResource, int]) -> _Try:
        worst = _Try(Mode.FIT)
        picks: dict[str, Pick] = {}
        reasons: list[str] = []
        for resource, amount in wanted.items():
            one = self._fit((name, resource), amount, usage.get((name, resource), 0))
            reasons += one.reasons
            if _rank(one, self.queue.fungibility) < _rank(worst, self.queue.fungibility):
                worst = one
            if one.mode is Mode.NO_FIT:
                return _Try(Mode.NO_FIT, reasons=tuple(reasons), reason=one.reason)
            picks[resource] = Pick(name, one.mode, one.level)
        return _Try(worst.mode, worst.level, picks, tuple(reasons), worst.reason)

    def _fit(self, fr: FlavorResource, amount: int, assumed: int) -> _Try:
        flavor, resource = fr
        queue, needed = self.queue.name, assumed + amount
        most = self.quota.potential(queue, fr)
        if needed > most:
            return _Try.refusal(
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({to_text(resource, assumed)}) + current podset request ({to_text(resource, amount)}) "
                f"> maximum capacity ({to_text(resource, most)})",
                Reason.EXCEEDS_MAX_QUOTA,
            )
        borrowing = self.quota.borrowing(queue, fr, needed)
        lacking = needed - self.quota.available(queue, fr)
        if lacking <= 0:
            return _Try(Mode.FIT, borrowing.level)
        more = to_text(resource, lacking)
        text = f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"
        if not (self.quota.nominal(queue, fr) >= needed or borrowing.below_root or self._preempts_while_borrowing()):
            return _Try.refusal(text, Reason.WAITING_FOR_QUOTA)
        mode, level = self.oracle.simulate(queue, fr, needed)
        return _Try(mode, level, reasons=(text,), reason=Reason.WAITING_FOR_QUOTA)

    def _preempts_while_borrowing(self) -> bool:
        return self.queue.preemption.borrow_policy != "Never"


@dataclass(frozen=True, slots=True)
class _Try:
    """How one flavor (or one resource of it) does."""

    mode: Mode
    level: int = 0
    picks: Mapping[str, Pick] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    reason: Reason | None = None

    @classmethod
    def refusal(cls, text: str, reason: Reason) -> _Try:
        return cls(Mode.NO_FIT, reasons=(text,), reason=reason)


def _rank(tried: _Try, policy: FungibilityPolicy) -> tuple[bool, bool, int, int]:
    """What the policy prefers ranks higher: any fit, somebody to evict, then mode and borrowing in the chosen order."""
    first, second = int(tried.mode), -tried.level
    if policy.preference == "PreemptionOverBorrowing":
        first, second = second, first
    return (tried.mode > Mode.NO_FIT, tried.mode > Mode.NO_CANDIDATES, first, second)


def _search_ends(tried: _Try, policy: FungibilityPolicy) -> bool:
    if tried.mode <= Mode.NO_CANDIDATES:
        return False
    if tried.mode < Mode.FIT and policy.when_can_preempt == "TryNextFlavor":
        return False
    return not (tried.level > 0 and policy.when_can_borrow == "TryNextFlavor")


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _groups(pod_sets: Sequence[PodSet]) -> Iterator[list[PodSet]]:
    """Pod sets of one placement group together, where the first of them stands."""
    keys: dict[str, int] = {}

    def place(item: tuple[int, PodSet]) -> int:
        index, pod_set = item
        group = pod_set.topology.group if pod_set.topology else None
        return index if group is None else keys.setdefault(group, index)

    ordered = sorted(enumerate(pod_sets), key=place)
    for _, members in groupby(ordered, key=place):
        yield [pod_set for _, pod_set in members]
