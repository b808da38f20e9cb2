"""Remove victims from the ledger, ask what fits then, and reprieve the victims that are not needed.

All of it happens inside one trial, so the ledger is the same afterwards.

Quota moves at once, since every step of a search asks for it. Whether the gang would find its place is counted where that is
exact (relief.py); else amounts on nodes move when a placement is asked for, and a placement once found is kept: as long as it
still has room nothing is placed anew. In both cases what comes out was placed for real at the end.

`remove_until_fit` removes candidates one by one until the workload fits. It checks quota after each of them. A placement that
cannot just be counted is checked in strides that double, then by bisection, since more room never makes a placement impossible.
`reprieve` puts back the victims that the workload fits beside; `reprieve_and_place` also places the workload at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType

from admission.engine.decision import Claim, Victim
from admission.engine.ledger import Ledger
from admission.engine.model import FlavorResource, PlacementRequest, Profile
from admission.engine.preemption.candidates import Candidate, Question
from admission.engine.quota.cohorts import Node, use
from admission.engine.topology.allocation.lift import Standing
from admission.engine.topology.relief import Relief, Site


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A candidate, and what its eviction is put down to."""

    candidate: Candidate
    claim: Claim

    @property
    def victim(self) -> Victim:
        """As it is told."""
        return Victim(self.candidate.key, self.claim)


class Removal:
    """A context: opens a trial of the ledger; what was taken out is put back at its end.

    `borrowing`: whether the preemptor may use more than its queue's own quota. `room`: of the question's candidates, as of
    now; None where no topology is asked for or nothing is known.
    """

    def __init__(self, ledger: Ledger, question: Question, room: Relief | None, *, borrowing: bool = True) -> None:
        self._ledger = ledger
        self._question = question
        self._borrowing = borrowing
        self.room = room
        self._requests = _quick(question.requests)
        self._out: dict[str, Candidate] = {}
        self._lifted: set[str] = set()
        self._standing: Standing | None = None
        self._assumed = False
        self._site: Site | None = None
        self._trial = ledger.trial()

    def __enter__(self) -> Removal:
        self._trial.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._assumed:
            self.assume(False)
        for candidate in self._out.values():
            _charge(candidate.node, candidate.usage, +1)
            if self.room is not None:
                self.room.come(candidate.key)
        self._trial.__exit__(kind, error, trace)

    # ---- in and out

    def take(self, candidate: Candidate) -> None:
        """Remove the workload."""
        _charge(candidate.node, candidate.usage, -1)
        self._out[candidate.key] = candidate
        if (room := self._site or self.room) is not None:
            room.leave(candidate.key)

    def put_back(self, candidate: Candidate) -> None:
        """Put the workload back."""
        _charge(candidate.node, candidate.usage, +1)
        del self._out[candidate.key]
        if candidate.key in self._lifted:
            self._lifted.discard(candidate.key)
            self._ledger.lower(candidate.key)
        if (room := self._site or self.room) is not None:
            room.come(candidate.key)

    def restore(self) -> None:
        """Put all removed workloads back."""
        for candidate in list(self._out.values()):
            self.put_back(candidate)

    @contextmanager
    def only(self, site: Site | None) -> Iterator[None]:
        """Count in this domain alone meanwhile; a victim removed inside it must be put back inside it."""
        self._site = site
        try:
            yield
        finally:
            self._site = None

    def assume(self, yes: bool) -> None:
        """Charge the preemptor's quota already, or take that back: shares are compared as they would be with it."""
        _charge(self._question.node, self._question.usage, +1 if yes else -1)
        self._assumed = yes

    # ---- what fits

    def quota_fits(self) -> bool:
        """Whether quota alone would do."""
        if not self._assumed:
            return self._quota_fits()
        self.assume(False)
        fits = self._quota_fits()
        self.assume(True)
        return fits

    def _quota_fits(self) -> bool:
        node, usage = self._question.node, self._question.usage
        if not self._borrowing and any(_beyond(node, fr, amount) > 0 for fr, amount in usage.items()):
            return False
        return self._ledger.quota.fits(self._question.queue.name, usage)

    def quota_shortages(self) -> list[tuple[FlavorResource, int]]:
        """By how much quotas are short, of those that are."""
        quota, node, name = self._ledger.quota, self._question.node, self._question.queue.name
        missing = []
        for fr, amount in self._question.usage.items():
            deficit = amount - quota.available(name, fr)
            if not self._borrowing:
                deficit = max(deficit, _beyond(node, fr, amount))
            if deficit > 0:
                missing.append((fr, deficit))
        return missing

    @property
    def placement_is_cheap(self) -> bool:
        """Whether `placement_fits` only counts."""
        return not self._requests or (self.room is not None and self.room.exact)

    def placement_fits(self) -> bool:
        """Whether its pods find their places."""
        if not self._requests:
            return True
        if self.room is not None:
            enough = self.room.enough if self._site is None else not self._site.missing
            if self.room.exact or not enough:
                return enough
        return self.places()

    def places(self) -> bool:
        """The same, by looking for them."""
        if not self._requests:
            return True
        for key in self._out.keys() - self._lifted:
            self._ledger.lift(key)
            self._lifted.add(key)
        if self._standing is not None and self._standing.holds():
            return True
        result = self._ledger.place(self._requests)
        if result.fits:
            self._standing = self._ledger.standing(self._requests, result.assignments)
        return result.fits

    def fits(self) -> bool:
        """Whether quota and placement would do."""
        return self.quota_fits() and self.placement_fits()

    # ---- searching

    def remove_until_fit(self, sequence: Iterable[Taken]) -> list[Taken]:
        """Remove from the sequence until the workload fits; none if it never does. Exactly the returned ones stay removed."""
        out: list[Taken] = []
        short, stride = 0, 1
        for one in sequence:
            self.take(one.candidate)
            out.append(one)
            if not self.quota_fits():
                short = len(out)
            elif self.placement_is_cheap or len(out) - short >= stride:
                if self.placement_fits():
                    return self._back(out, short)
                short, stride = len(out), 2 * stride
        if len(out) > short and self.placement_fits():
            return self._back(out, short)
        self._move(out, len(out), 0)
        return []

    def _back(self, out: list[Taken], short: int) -> list[Taken]:
        """The shortest beginning of `out` that makes room; the first `short` do not, all of them do."""
        low, high, at = short, len(out), len(out)
        while high - low > 1:
            middle = (low + high) // 2
            self._move(out, at, middle)
            at = middle
            low, high = (low, middle) if self.fits() else (middle, high)
        self._move(out, at, high)
        return out[:high]

    def _move(self, out: Sequence[Taken], at: int, to: int) -> None:
        for one in out[at:to]:
            self.take(one.candidate)
        for one in out[to:at]:
            self.put_back(one.candidate)

    def reprieve_and_place(self, out: Sequence[Taken]) -> list[Taken]:
        """The same as `reprieve`; none where no placement is found for the workload after all."""
        kept = self.reprieve(out)
        return kept if self.places() else []

    def reprieve(self, out: Sequence[Taken]) -> list[Taken]:
        """Put back each victim that the workload fits beside, last but one first. As in Kueue the last one fills the gap."""
        kept = list(out)
        for index in range(len(kept) - 2, -1, -1):
            candidate = kept[index].candidate
            self.put_back(candidate)
            if self.fits():
                kept[index] = kept[-1]
                kept.pop()
            else:
                self.take(candidate)
        return kept


def room_for(ledger: Ledger, question: Question, candidates: Iterable[Candidate]) -> Relief | None:
    """What each candidate would leave to the preemptor."""
    return ledger.relief(question.requests, [c.key for c in candidates]) if question.requests else None


def _charge(node: Node, usage: Mapping[FlavorResource, int], sign: int) -> None:
    """Not written to the journal: the caller undoes it, and a search does it tens of thousands of times."""
    for fr, amount in usage.items():
        use(node, fr, sign * amount)


def _beyond(node: Node, fr: FlavorResource, amount: int) -> int:
    """By how much the queue would pass its own quota."""
    return node.usage.get(fr, 0) + amount - node.quota(fr).nominal


def _quick(requests: Sequence[PlacementRequest]) -> list[PlacementRequest]:
    """The same question where only yes or no counts: one pod set that fits at all fits by Kueue's rules as well."""
    if len(requests) > 1:
        return list(requests)
    return [replace(request, profile=Profile.COMPATIBLE) for request in requests]
