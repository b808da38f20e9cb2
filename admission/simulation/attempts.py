"""The work of a simulated workload from one start to its end or to a stop, with what a stop loses.

Times are milliseconds since the start of the simulation. A restart spends the workload's `move-cost` before it works, and
continues from the last checkpoint; without checkpoints it begins again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that began at `begun` with `left` of work to do, None if it never ends.

    `overhead` passes before it works. `saved_before` of the work was saved before the simulation, by the workload's own word;
    from there on it is saved each time after `every` of work, 0 for never.
    """

    begun: int
    left: int | None
    overhead: int = 0
    every: int = 0
    saved_before: int = 0

    @property
    def end(self) -> int | None:
        """When it ends if nothing stops it; at least a millisecond after its begin."""
        return None if self.left is None else self.begun + self.overhead + self.left

    def saved(self, now: int) -> int:
        """Returns the work that a stop at `now` leaves done."""
        saved = self.saved_before + self._saves(now) * self.every
        return saved if self.left is None else min(self.left, saved)

    def _saves(self, now: int) -> int:
        worked = now - self.begun - self.overhead
        return max(0, worked - self.saved_before) // self.every if self.every else 0

    def checkpoint(self, now: int) -> int | None:
        """Returns when its work was last saved; None if it has not been."""
        saved = self.saved(now)
        return self.begun + self.overhead + saved if saved else None

    def next_checkpoint(self, now: int) -> int | None:
        """Returns when its work is saved next; None if never."""
        if not self.every:
            return None
        at = self.begun + self.overhead + self.saved_before + (self._saves(now) + 1) * self.every
        return at if self.end is None or at < self.end else None

    def lost(self, now: int) -> int:
        """Returns the time until `now` that leaves nothing done if it stops now."""
        return max(0, now - self.begun - self.saved(now))

    def again(self, now: int, overhead: int) -> Attempt:
        """Returns the attempt that follows a stop and restart at `now`."""
        left = None if self.left is None else max(1, self.left - self.saved(now))
        return replace(self, begun=now, left=left, overhead=overhead, saved_before=0)
