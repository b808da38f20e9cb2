"""Changes tried on a trial of the ledger: would the workload be admitted if these were made? And searches built on that.

The searches assume that more capacity never hurts, which has rare exceptions. What they return was itself tried, so a remedy
is always right, though rarely a smaller one exists. A budget bounds the work by the number of placements, not by time, so
that the same ledger always gives the same explanation. Called by remedies.py and those that find one kind of change each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from admission.engine.cycle.admission_attempt import AttemptResult, attempt
from admission.engine.explain.apply_changes import make
from admission.engine.explain.changes import Change
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, Workload

BUDGET = 400


class TrialBudget:
    """How many placements may still be tried.

    `pause` is called between two of them, while no trial is open: the caller may do other work then, and change the ledger.
    """

    def __init__(self, left: int = BUDGET, pause: Callable[[], None] | None = None) -> None:
        self.left, self.pause = left, pause

    def rest(self, ledger: Ledger) -> None:
        """Let the caller do other work, if the ledger is as it found it."""
        if self.pause is not None and not ledger.journal.recording:
            self.pause()

    @property
    def spent(self) -> bool:
        """Whether no further question is answered truly: all are answered with no."""
        return self.left <= 0


class Trials:
    """One workload's questions. `base`: changes that are always made first."""

    def __init__(
        self,
        ledger: Ledger,
        workload: Workload,
        queue: ClusterQueue,
        now: float,
        budget: TrialBudget,
        base: tuple[Change, ...] = (),
    ) -> None:
        self.ledger, self.workload, self.queue, self.now = ledger, workload, queue, now
        self.budget, self.base = budget, base

    def upon(self, base: tuple[Change, ...]) -> Trials:
        """The same with these changes made first, too, on what is left of the budget."""
        return Trials(self.ledger, self.workload, self.queue, self.now, self.budget, (*self.base, *base))

    def of(self, workload: Workload) -> Trials:
        """The same questions of another workload."""
        return Trials(self.ledger, workload, self.queue, self.now, self.budget, self.base)

    def admits(self, *changes: Change) -> bool:
        """Whether the workload is admitted after the changes."""
        return self.outcome(*changes).fits

    def outcome(self, *changes: Change) -> AttemptResult:
        """The result of an attempt with the workload after the changes."""
        if self.budget.spent:
            return AttemptResult(False)
        self.budget.left -= 1
        self.budget.rest(self.ledger)
        with self.changed(*changes) as workload:
            return attempt(self.ledger, workload, self.now)

    @contextmanager
    def changed(self, *changes: Change) -> Iterator[Workload]:
        """Inside, the ledger is as the changes make it; gives the workload as it is then."""
        workload = self.workload
        with self.ledger.trial():
            for change in (*self.base, *changes):
                workload = make(self.ledger, workload, change)
            yield workload

    # ---- searches over one number

    def most(self, change: Callable[[int], Change], low: int, high: int) -> Change | None:
        """The change with the largest number in low..high that admits; None where even `low` does not."""
        if low > high or not self.admits(change(low)):
            return None
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.admits(change(middle)) else (low, middle - 1)
        return change(low)

    def least(self, change: Callable[[int], Change], guess: int, limit: int) -> Change | None:
        """The change with the smallest number in 1..limit that admits, looked for from `guess` on; None where none does."""
        step, high = 1, max(1, min(guess, limit))
        low = high - 1
        while not self.admits(change(high)):
            if high == limit or self.budget.spent:
                return None
            low, high, step = high, min(limit, high + step), 2 * step
        step = 1
        while low and low >= high - step and self.admits(change(low)):
            low, high, step = max(0, low - 2 * step), low, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.admits(change(middle)) else (middle, high)
        return change(high)

    def first(self, changes: Sequence[Change]) -> Change | None:
        """The first that admits."""
        return next((change for change in changes if self.admits(change)), None)
