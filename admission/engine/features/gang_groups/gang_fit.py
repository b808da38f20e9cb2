"""Tests whether all members of a GangGroup fit at once: flavors for each, and one joint placement of all pod sets.

cycle/solve.py answers this for one order of the members. A member that does not fit goes first in the next try, because a
member before it may have taken the only capacity that it can use; each member is moved once. The ledger is changed only inside
the trial of `charged`. Called by groups.py and gang_preemption.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from admission.engine.cycle.fewer_pods import share_given_up, spare_pods
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import LeavesQuota, Unsolved, solve
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.reasons import ReasonCode

Refuses = Callable[[Nomination], tuple[ReasonCode, str] | None]
Fitting = tuple[Nomination, ...]


@dataclass(frozen=True, slots=True)
class GroupNotStarted:
    """Why a group does not start, and because of which member. `stranded` are members whose quota must be released."""

    member: str
    reason: ReasonCode
    message: str
    stranded: tuple[str, ...] = ()

    def message_for(self, key: str) -> str:
        """Returns the message for this member."""
        return self.message if key == self.member else f"gang {self.member} of the group: {self.message}"


class GroupFit:
    """Fits groups on the ledger as it stands. `now` is epoch seconds."""

    def __init__(self, ledger: Ledger, now: float, leaves_quota: LeavesQuota, refusal: Refuses, *, fair: bool) -> None:
        self._ledger, self._now, self._fair = ledger, now, fair
        self._leaves_quota, self._refusal = leaves_quota, refusal

    def charged(self, members: Iterable[Workload], *, spare: bool = True) -> Fitting | GroupNotStarted:
        """Charges all members to the ledger and returns their nominations, or returns why one does not fit and changes
        nothing.

        If not all pods of all members fit, each member gives up the same part of the pods beyond its minimum, the smallest
        part with which all members fit. `spare`: quota that is reserved for other workloads must stay free. Otherwise
        reservations are charged already.
        """
        every = tuple(members)
        whole = self._charged(every, spare)
        most = max(map(spare_pods, every), default=0)
        if not isinstance(whole, GroupNotStarted) or not most:
            return whole
        low, high = 1, most + 1
        while low < high:
            middle = (low + high) // 2
            with self._ledger.trial():
                fitting = self._charged([share_given_up(one, middle, most) for one in every], spare)
            low, high = (middle + 1, high) if isinstance(fitting, GroupNotStarted) else (low, middle)
        if low > most:
            return whole
        return self._charged([share_given_up(one, low, most) for one in every], spare)

    def _charged(self, members: Iterable[Workload], spare: bool) -> Fitting | GroupNotStarted:
        line = sorted(members, key=order_of)
        blamed: set[str] = set()
        while True:
            fitting = self._attempt(line, spare)
            if not isinstance(fitting, GroupNotStarted) or fitting.member in blamed:
                return fitting
            blamed.add(fitting.member)
            if fitting.member == line[0].key:
                return fitting  # it had the ledger to itself
            line.sort(key=lambda member: (member.key != fitting.member, order_of(member)))

    def _attempt(self, line: Sequence[Workload], spare: bool) -> Fitting | GroupNotStarted:
        with self._ledger.trial() as trial:
            leaves_quota = self._leaves_quota if spare else None
            nominations = solve(self._ledger, line, self._now, fair=self._fair, leaves_quota=leaves_quota)
            if isinstance(nominations, Unsolved):
                return GroupNotStarted(nominations.workload, nominations.reason, nominations.message)
            for one in nominations:
                if (why := self._refusal(one)) is not None:
                    return GroupNotStarted(one.workload.key, *why)
                self._ledger.charge(one.workload, one.admission())
            trial.keep()
        return nominations
