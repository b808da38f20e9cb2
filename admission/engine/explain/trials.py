"""Tries changes on a trial of the ledger, to decide whether the workload would be admitted, and searches over one number.

remedies.py and the modules that find one kind of change call it. The searches assume that more capacity never hurts, which has
rare exceptions. Their results were tried themselves, so a remedy is always right, though rarely a smaller one exists. A budget
bounds the work by the number of placements, not by time, so that the same ledger always gives the same explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from admission.engine.cycle.admission_attempt import AttemptResult, attempt
from admission.engine.explain.apply_changes import make
from admission.engine.explain.changes import Change
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, Workload

BUDGET = 400


class TrialBudget:
    """The number of placements that may still be tried.

    `pause` is called between two placements, while no trial is open: the caller may then do other work and change the ledger.
    """

    def __init__(self, left: int = BUDGET, pause: Callable[[], None] | None = None) -> None:
        self.left, self.pause = left, pause

    def rest(self, ledger: Ledger) -> None:
        """Calls `pause`, unless a trial is open."""
        if self.pause is not None and not ledger.journal.recording:
            self.pause()

    @property
    def spent(self) -> bool:
        """Reports whether the budget is spent, after which every trial answers no."""
        return self.left <= 0


class Trials:
    """Trials for one workload; the changes in `base` are always made first."""

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

    def on_top_of(self, base: tuple[Change, ...]) -> Trials:
        """Returns trials that make these changes first too, on the same budget."""
        return Trials(self.ledger, self.workload, self.queue, self.now, self.budget, (*self.base, *base))

    def of(self, workload: Workload) -> Trials:
        """Returns the same trials for another workload."""
        return Trials(self.ledger, workload, self.queue, self.now, self.budget, self.base)

    def admits(self, *changes: Change) -> bool:
        """Reports whether the workload is admitted after the changes."""
        return self.outcome(*changes).fits

    def outcome(self, *changes: Change) -> AttemptResult:
        """Returns the result of an attempt with the workload after the changes."""
        if self.budget.spent:
            return AttemptResult(False)
        self.budget.left -= 1
        self.budget.rest(self.ledger)
        with self.changed(*changes) as workload:
            return attempt(self.ledger, workload, self.now)

    @contextmanager
    def changed(self, *changes: Change) -> Iterator[Workload]:
        """Makes the changes inside the context; yields the changed workload."""
        workload = self.workload
        with self.ledger.trial():
            for change in (*self.base, *changes):
                workload = make(self.ledger, workload, change)
            yield workload

    # ---- searches over one number

    def most(self, change: Callable[[int], Change], low: int, high: int) -> Change | None:
        """Returns the change with the largest number in low..high that admits, or None if even `low` does not."""
        if low > high or not self.admits(change(low)):
            return None
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.admits(change(middle)) else (low, middle - 1)
        return change(low)

    def least(self, change: Callable[[int], Change], guess: int, limit: int) -> Change | None:
        """Returns the change with the smallest number in 1..limit that admits, searched from `guess` on, or None."""
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
        """Returns the first change that admits, or None."""
        return next((change for change in changes if self.admits(change)), None)
