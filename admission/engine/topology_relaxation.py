"""Relaxation of a required level with time: the level in force, the next one, and when it changes.

`stowage.dev/relax-topology-after` on a required request: after each period the required level rises by one; after the topmost
one that level is only preferred. With the levels block, rack, host and a period of ten minutes, `rack` is required at first,
`block` after ten minutes, and as few blocks as possible are preferred after twenty. The time counts from `Workload.queued`
(creation, or the eviction that sent it to the end of the queue; convert_workloads.py), so a preempted workload keeps its step.
A workload that was admitted on a wider level stays there.

Pure arithmetic on one request; requests.py applies it to a workload and words it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from admission.engine.model import TopologyRequest


@dataclass(frozen=True, slots=True)
class RelaxedRequest:
    """A request after relaxation."""

    request: TopologyRequest
    """The one in force."""
    steps: int = 0
    """After how many steps."""
    next_at: int | None = None
    """When the next step comes, in seconds of waiting; None after the last."""
    now: str | None = None
    """The level in force; None if no level is or will be required."""
    then: str | None = None
    """The next level; None likewise."""

    def text(self, original: TopologyRequest) -> str:
        """Returns the levels in force and next, for people; empty if nothing ever changes."""
        period = original.relax_after
        if period is None or (self.next_at is None and not self.steps):
            return ""
        text = f"required level {original.required}"
        if self.steps:
            held = self.now or f"preferred {self.request.preferred}"
            text += f" relaxed to {held} after {duration(self.steps * period)}"
        if self.next_at is not None:
            text += f"; {self.then or 'preferred'} from {duration(self.next_at)} on"
        return text


def relaxed_request(request: TopologyRequest, levels: Sequence[str], waited: float) -> RelaxedRequest:
    """Returns the request after `waited` seconds on a topology with these levels, widest first.

    Unchanged if it has no period or its level is none of these.
    """
    period = request.relax_after
    if period is None or request.required is None or request.required not in levels:
        return RelaxedRequest(request, now=request.required)
    level = levels.index(request.required)
    last = level + 1
    steps = min(last, max(0, int(waited // period)))
    now = _level(levels, level - steps)
    if steps == last:
        return RelaxedRequest(replace(request, required=None, preferred=levels[0]), steps)
    then = _level(levels, level - steps - 1)
    return RelaxedRequest(replace(request, required=now), steps, (steps + 1) * period, now, then)


def _level(levels: Sequence[str], index: int) -> str | None:
    return levels[index] if index >= 0 else None


def duration(seconds: int) -> str:
    """Seconds as text: 90 is 1m30s."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
