"""How a required level gives way with time: which level holds now, what comes next, and when.

`stowage.dev/relax-topology-after` on a required request: each time the period passes the required level climbs by one;
after the topmost it is only preferred there. So `rack` of the levels block, rack, host with a period of ten minutes is
required at first, `block` after ten minutes, and from twenty on as few blocks as possible. The time counts from
`Workload.queued`: creation, or the eviction that sent it to the end of the queue (convert.py), so a workload that was
preempted keeps the step that it had reached. What was admitted on a wider level stays as it is.

Pure arithmetic on one request; requests.py applies it to a workload and words it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from admission.engine.model import TopologyAsk


@dataclass(frozen=True, slots=True)
class RelaxedAsk:
    """A request as it stands: `ask` is in force. `steps` were taken, so many periods ago at the least.

    `next_at`: seconds of waiting at which the next step comes, None after the last. `now` and `then`: the levels that are
    in force and that follow; None where the level is no longer, or will no longer be, required.
    """

    ask: TopologyAsk
    steps: int = 0
    next_at: int | None = None
    now: str | None = None
    then: str | None = None

    def text(self, asked: TopologyAsk) -> str:
        """What holds now and what comes next, for people; empty where nothing ever changes."""
        period = asked.relax_after
        if period is None or (self.next_at is None and not self.steps):
            return ""
        text = f"required level {asked.required}"
        if self.steps:
            held = self.now or f"preferred {self.ask.preferred}"
            text += f" relaxed to {held} after {duration(self.steps * period)}"
        if self.next_at is not None:
            text += f"; {self.then or 'preferred'} from {duration(self.next_at)} on"
        return text


def relaxed_ask(ask: TopologyAsk, levels: Sequence[str], waited: float) -> RelaxedAsk:
    """The request after `waited` seconds on a topology with these levels, widest first.

    One that is not to be relaxed, or whose level is none of these, stands as it is.
    """
    period = ask.relax_after
    if period is None or ask.required is None or ask.required not in levels:
        return RelaxedAsk(ask, now=ask.required)
    asked = levels.index(ask.required)
    last = asked + 1
    steps = min(last, max(0, int(waited // period)))
    now = _level(levels, asked - steps)
    if steps == last:
        return RelaxedAsk(replace(ask, required=None, preferred=levels[0]), steps)
    then = _level(levels, asked - steps - 1)
    return RelaxedAsk(replace(ask, required=now), steps, (steps + 1) * period, now, then)


def _level(levels: Sequence[str], index: int) -> str | None:
    return levels[index] if index >= 0 else None


def duration(seconds: int) -> str:
    """Seconds as people write them: 90 is 1m30s."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
