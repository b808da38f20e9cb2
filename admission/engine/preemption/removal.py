"""Removes victims from the ledger in a trial, checks what then fits, and reprieves victims that are not needed.

The ledger is unchanged after the trial. Quota changes at once, since every step of a search reads it. Whether the gang can be
placed is counted where counting is exact (eviction_gains.py). Otherwise node usage changes only when a placement is requested,
and a placement that was found stays valid until it no longer fits. In both cases the final answer was really placed.

`remove_until_fit` removes candidates one by one until the workload fits. It checks quota after each of them. A placement that
cannot just be counted is checked in strides that double, then by bisection, since more capacity never makes a placement
impossible. `reprieve` puts back the victims whose eviction is not needed; `reprieve_and_place` also places the workload at the
end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from types import TracebackType
from typing import Final

from admission.engine.decision import PlacementResult, PreemptionReason, Victim
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import FlavorResource, PlacementRequest, Profile
from admission.engine.preemption.candidates import Candidate, PreemptionContext
from admission.engine.quota.cohorts import QuotaNode, use
from admission.engine.spare_quota import within_quota
from admission.engine.topology.allocation.simulated_removal import PlacementCheck
from admission.engine.topology.evictions.eviction_gains import CandidateDomain, EvictionGains

_usage, _node = attrgetter("usage"), attrgetter("node")
_FEW: Final = 64
"""The number of removed candidates after which their places are counted for the first time."""


@dataclass(frozen=True, slots=True, eq=False)
class PreemptionTarget:
    """A candidate that is removed, and the reason of its eviction."""

    candidate: Candidate
    claim: PreemptionReason

    @property
    def victim(self) -> Victim:
        """The victim as a decision reports it."""
        return Victim(self.candidate.key, self.claim)


class TrialRemoval:
    """A context manager around one trial of the ledger; removed candidates are put back at its end.

    `borrowing` tells whether the preemptor may exceed its queue's own quota. `gains` is what each candidate's eviction frees
    at this moment; None if no topology is requested or nothing is known.
    """

    def __init__(
        self, ledger: Ledger, context: PreemptionContext, gains: EvictionGains | None, *, borrowing: bool = True
    ) -> None:
        self._ledger = ledger
        self._context = context
        self._borrowing = borrowing
        self.gains = gains
        self._requests = _quick(context.requests)
        self._out: dict[str, Candidate] = {}
        self._simulated: set[str] = set()
        self._placement_check: PlacementCheck | None = None
        self._assumed = False
        self._domain: CandidateDomain | None = None
        self._trial = ledger.trial()

    def __enter__(self) -> TrialRemoval:
        self._trial.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._assumed:
            self.assume(False)
        _charge_all(self._out.values(), +1)
        if self.gains is not None:
            for key in self._out:
                self.gains.bring_back(key)
        self._trial.__exit__(kind, error, trace)

    # ---- remove and put back

    def remove(self, candidate: Candidate) -> None:
        """Removes the workload."""
        _charge(candidate.node, candidate.usage, -1)
        self._out[candidate.key] = candidate
        if (counted := self._domain or self.gains) is not None:
            counted.evict(candidate.key)

    def put_back(self, candidate: Candidate) -> None:
        """Puts the workload back."""
        _charge(candidate.node, candidate.usage, +1)
        del self._out[candidate.key]
        if candidate.key in self._simulated:
            self._simulated.discard(candidate.key)
            self._ledger.undo_removal(candidate.key)
        if (counted := self._domain or self.gains) is not None:
            counted.bring_back(candidate.key)

    def remove_all(self, candidates: Collection[Candidate]) -> None:
        """Removes the workloads."""
        _charge_all(candidates, -1)
        counted = self._domain or self.gains
        for candidate in candidates:
            self._out[candidate.key] = candidate
            if counted is not None:
                counted.evict(candidate.key)

    def put_back_all(self, candidates: Collection[Candidate]) -> None:
        """Puts the workloads back."""
        _charge_all(candidates, +1)
        counted = self._domain or self.gains
        for candidate in candidates:
            key = candidate.key
            del self._out[key]
            if key in self._simulated:
                self._simulated.discard(key)
                self._ledger.undo_removal(key)
            if counted is not None:
                counted.bring_back(key)

    def restore(self) -> None:
        """Puts all removed workloads back."""
        self.put_back_all(list(self._out.values()))

    @contextmanager
    def only(self, domain: CandidateDomain | None) -> Iterator[None]:
        """Counts only this domain inside the context. A victim removed inside the context must be put back inside it."""
        self._domain = domain
        try:
            yield
        finally:
            self._domain = None

    def assume(self, yes: bool) -> None:
        """Charges the preemptor's quota, or releases it: fair sharing compares shares that include the preemptor."""
        _charge(self._context.node, self._context.usage, +1 if yes else -1)
        self._assumed = yes

    # ---- checks

    def quota_fits(self) -> bool:
        """Reports whether quota alone suffices."""
        if not self._assumed:
            return self._quota_fits()
        self.assume(False)
        fits = self._quota_fits()
        self.assume(True)
        return fits

    def _quota_fits(self) -> bool:
        node, usage = self._context.node, self._context.usage
        if not self._borrowing and any(_beyond(node, fr, amount) > 0 for fr, amount in usage.items()):
            return False
        return self._ledger.quota.fits(self._context.queue.name, usage)

    def quota_shortages(self) -> list[tuple[FlavorResource, int]]:
        """Returns the (flavor, resource) pairs whose quota is short, and by how much."""
        quota, node, name = self._ledger.quota, self._context.node, self._context.queue.name
        missing = []
        for fr, amount in self._context.usage.items():
            deficit = amount - quota.available(name, fr)
            if not self._borrowing:
                deficit = max(deficit, _beyond(node, fr, amount))
            if deficit > 0:
                missing.append((fr, deficit))
        return missing

    @property
    def placement_is_cheap(self) -> bool:
        """Reports whether `placement_fits` only counts."""
        return not self._requests or (self.gains is not None and self.gains.exact)

    def placement_fits(self) -> bool:
        """Reports whether the workload's pods can be placed."""
        if not self._requests:
            return True
        if self.gains is not None:
            enough = self.gains.enough if self._domain is None else not self._domain.missing
            if self.gains.exact or not enough:
                return enough
        return self.places()

    def places(self) -> bool:
        """Places the workload's pods to report whether they can be placed."""
        if not self._requests:
            return True
        for key in self._out.keys() - self._simulated:
            self._ledger.simulate_removal(key)
            self._simulated.add(key)
        if self._placement_check is not None and self._placement_check.holds():
            return True
        result = self._ledger.placement.place(self._requests)
        if result.fits and self._context.assignment is not None:
            result = self._with_quota(self._context.assignment, result)
        if result.fits:
            self._placement_check = self._ledger.placement.check(self._requests, result.assignments)
        return result.fits

    def _with_quota(self, assignment: FlavorAssignment, result: PlacementResult) -> PlacementResult:
        """Returns the placement if there is quota for what it holds beside the pods, else another one or the failure."""
        assumed = self._assumed
        if assumed:
            self.assume(False)
        result = within_quota(self._ledger, self._context.workload, assignment, self._requests, result)
        if assumed:
            self.assume(True)
        return result

    def fits(self) -> bool:
        """Reports whether quota and placement suffice."""
        return self.quota_fits() and self.placement_fits()

    # ---- search

    def remove_until_fit(self, sequence: Iterable[PreemptionTarget]) -> list[PreemptionTarget]:
        """Removes candidates from the sequence until the workload fits; returns them, or none if it never does.

        Exactly the returned candidates stay removed.
        """
        out: list[PreemptionTarget] = []
        removed: list[Candidate] = []
        short, stride = 0, 1
        for one in sequence:
            self.remove(one.candidate)
            out.append(one)
            removed.append(one.candidate)
            if not self.quota_fits():
                short = len(out)
            elif self.placement_is_cheap or len(out) - short >= stride:
                if self.placement_fits():
                    return out[: self._bisected(removed, short, len(out), self.fits)]
                short, stride = len(out), 2 * stride
        if len(out) > short and self.placement_fits():
            return out[: self._bisected(removed, short, len(out), self.fits)]
        self._move(removed, len(out), 0)
        return []

    def remove_until_counted(self, candidates: Iterable[Candidate], *, own: bool) -> list[PreemptionTarget]:
        """Does what `remove_until_fit` does where placements are only counted and nothing is removed yet.

        What the evictions free is counted for all of them at once; so which candidates there are must not depend on places.
        `own`: all of them are of the preemptor's own queue, so that does not depend on quota either.
        """
        gains, self.gains = self.gains, None
        if own:
            out = list(candidates)
            enough = _enough_after(gains, out)
            short = self._remove_at_once(out, min(enough.values(), default=None))
        else:
            out = []
            short = self._remove_in_turn(candidates, out, gains)
            enough = _enough_after(gains, out)
        number = None if short is None else max(short + 1, min(enough.values(), default=len(out) + 1))
        if number is None or number > len(out):
            self._move(out, len(self._out), 0)
            self.gains = gains
            return []
        self._move(out, len(self._out), number)
        del out[number:]
        if gains is not None:
            slots = {slot for slot, evictions in enough.items() if evictions <= number}
            self.gains = gains.after([candidate.key for candidate in out], slots)
        return [PreemptionTarget(candidate, candidate.variant.claim) for candidate in out]

    def _remove_in_turn(
        self, candidates: Iterable[Candidate], out: list[Candidate], gains: EvictionGains | None
    ) -> int | None:
        """Removes the candidates one by one into `out`, until they suffice or have ended; returns how many of them free too
        little quota, or None if all do.
        """
        short, look = 0, _FEW
        for candidate in candidates:
            self.remove(candidate)
            out.append(candidate)
            if short == len(out) - 1 and not self.quota_fits():
                short = len(out)
            elif gains is None or gains.enough:
                break
            elif len(out) >= look:
                look *= 4
                if _enough_after(gains, out):
                    break
        return None if short == len(out) else short

    def _remove_at_once(self, out: Sequence[Candidate], number: int | None) -> int | None:
        """Removes the first `number` candidates, at least one, and more until quota suffices; returns how many of them free
        too little quota, at least one less than `number`; None if `number` is None or all do.
        """
        if number is None or not out:
            return None
        at, step = max(number, 1), 1
        self._move(out, 0, at)
        if self.quota_fits():
            return at - 1
        while at < len(out):
            low, at, step = at, min(len(out), at + step), 2 * step
            self._move(out, low, at)
            if self.quota_fits():
                return self._bisected(out, low, at, self.quota_fits) - 1
        return None

    def _bisected(self, out: Sequence[Candidate], low: int, high: int, suffices: Callable[[], bool]) -> int:
        """Returns the length of the shortest beginning of `out` that suffices: more than `low`, at most `high`.

        The candidates up to `high` are removed before, and exactly the shortest beginning afterwards.
        """
        at = high
        while high - low > 1:
            middle = (low + high) // 2
            self._move(out, at, middle)
            at = middle
            low, high = (low, middle) if suffices() else (middle, high)
        self._move(out, at, high)
        return high

    def _move(self, out: Sequence[Candidate], at: int, to: int) -> None:
        self.remove_all(out[at:to])
        self.put_back_all(out[to:at])

    def reprieve_and_place(self, out: Sequence[PreemptionTarget]) -> list[PreemptionTarget]:
        """Reprieves like `reprieve`; returns no victims if no placement is found for the workload."""
        kept = self.reprieve(out)
        return kept if self.places() else []

    def reprieve(self, out: Sequence[PreemptionTarget]) -> list[PreemptionTarget]:
        """Puts back each victim whose eviction is not needed, the last but one first; as in Kueue the last replaces it in the
        list.
        """
        kept = list(out)
        for index in self._not_needed([one.candidate for one in kept[:-1]]):
            kept[index] = kept[-1]
            kept.pop()
        return kept

    def _not_needed(self, removed: Sequence[Candidate]) -> Iterator[int]:
        """Puts back each candidate that is not needed, the last one first; yields its index.

        Where a placement is only counted, several are put back at once: if all of them may be, each of them may be. Those that
        are in no counted domain matter for quota alone, so all up to the next one that is in one are tried together.
        """
        cheap, counted = self.placement_is_cheap, self._domain or self.gains
        inside = [not cheap or (counted is not None and counted.concerns(one.key)) for one in removed]
        end, most = len(removed), {True: 1, False: len(removed)}
        while end > 0:
            kind, start = inside[end - 1], end - 1
            while start > max(0, end - most[kind]) and inside[start - 1] is kind:
                start -= 1
            run = removed[start:end]
            self.put_back_all(run)
            if self.fits():
                yield from range(end - 1, start - 1, -1)
                end, most[kind] = start, 2 * len(run) if cheap else 1
            else:
                self.remove_all(run)
                if len(run) == 1:
                    end = start
                most[kind] = max(1, len(run) // 2)


def quota_fits_without(
    ledger: Ledger, context: PreemptionContext, candidates: Collection[Candidate], *, borrowing: bool
) -> bool:
    """Reports whether quota alone suffices once all these have left."""
    removal, sums = TrialRemoval(ledger, context, None, borrowing=borrowing), totals(candidates)
    for node, usage in sums.items():
        _charge(node, usage, -1)
    try:
        return removal.quota_fits()
    finally:
        for node, usage in sums.items():
            _charge(node, usage, +1)


def gains_of(ledger: Ledger, context: PreemptionContext, candidates: Iterable[Candidate]) -> EvictionGains | None:
    """Returns what each candidate's eviction frees for the preemptor, or None without a topology request."""
    return ledger.placement.eviction_gains(context.requests, [c.key for c in candidates]) if context.requests else None


def _charge(node: QuotaNode, usage: Mapping[FlavorResource, int], sign: int) -> None:
    """Charges usage without the journal: the caller undoes it, and a search does it tens of thousands of times."""
    for fr, amount in usage.items():
        use(node, fr, sign * amount)


def totals(candidates: Collection[Candidate]) -> dict[QuotaNode, dict[FlavorResource, int]]:
    """Returns what all these candidates use together, by queue. Most use the same as others (allocation/ranked.py)."""
    if len(candidates) == 1:
        return {one.node: dict(one.usage) for one in candidates}
    usages = list(map(_usage, candidates))
    amounts = dict(zip(map(id, usages), usages, strict=True))
    sums: dict[QuotaNode, dict[FlavorResource, int]] = {}
    for (node, number), many in Counter(zip(map(_node, candidates), map(id, usages), strict=True)).items():
        total = sums.setdefault(node, {})
        for fr, amount in amounts[number].items():
            total[fr] = total.get(fr, 0) + many * amount
    return sums


def _charge_all(candidates: Collection[Candidate], sign: int) -> None:
    """Charges the usage of all these candidates, each queue once: the sums of the tree do not depend on the order."""
    for node, usage in totals(candidates).items():
        _charge(node, usage, sign)


def _enough_after(gains: EvictionGains | None, out: Sequence[Candidate]) -> dict[int, int]:
    """Returns the domains in which the pods have room, each with the number of these to evict, from the first on."""
    return {0: 0} if gains is None else gains.enough_after([candidate.key for candidate in out])


def _beyond(node: QuotaNode, fr: FlavorResource, amount: int) -> int:
    """Returns the amount by which the queue would exceed its own quota."""
    return node.usage.get(fr, 0) + amount - node.quota(fr).nominal


def _quick(requests: Sequence[PlacementRequest]) -> list[PlacementRequest]:
    """Returns the requests for a yes-or-no answer: a single pod set fits if and only if it fits by Kueue's rules."""
    if len(requests) > 1 or any(request.asks_beside for request in requests):
        return list(requests)
    return [replace(request, profile=Profile.COMPATIBLE) for request in requests]
