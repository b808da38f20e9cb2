"""Whether a change of the engine changes what it decides: the hash of all decisions in drawn scenes.

    python -m tests.bench answers [--scenes 500] [--steps 40] [--keep FILE]

Each scene is a drawn cluster (tests/admission/engine/queue/drawn_scenes.py) of one of five kinds in turn: of any modes, where
everybody may evict, with fair sharing, the same with many queues in a deep tree, and with admission fair sharing. Run it
before and after the change: equal hashes say that no decision, victim, place, message or notice differs. With `--keep` it
writes them, for `diff`.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from admission.engine.cycle.cycle import CycleReport
from admission.engine.model import Event
from admission.engine.queue.past_usage import UsageRules
from admission.engine.quota.fairness import FairSharingRules
from tests.admission.engine.queue.drawn_scenes import HOUR, Evicting, Scene


class Noted(Scene):
    """A scene whose reports are written down. One that its own checks refuse ends there, before and after the change."""

    def cycle(self) -> CycleReport:
        """One cycle."""
        report = super().cycle()
        notices = sorted(map(repr, report.notices))
        self.texts += [repr(decision) for decision in report.decisions] + notices + [f"more: {report.more}"]
        return report

    def _beginning(self) -> list[Event]:
        self.texts: list[str] = []
        return super()._beginning()


class NotedEvicting(Noted, Evicting):
    """The same where everybody may evict."""


class Fair(Noted):
    """The same with fair sharing."""

    def _beginning(self) -> list[Event]:
        self.world.sharing, self.by_usage, self.world.queues.past.rules = FairSharingRules(), False, None
        return super()._beginning()


class WideFair(Fair):
    """The same with many queues, in a tree of up to four levels, and many that wait."""

    def _beginning(self) -> list[Event]:
        self.names = "abcdefghijkl"
        self.parents |= {"mid": "low", "left": "mid", "right": "low"}
        events = super()._beginning()
        self.cohorts = {name: self.dice.choice(tuple(self.parents)) for name in self.names}
        return events + [self._queue(name) for name in self.names]

    def submit(self) -> None:
        """Several at once."""
        if len(self.waiting) > 30:
            self._finish(self.dice.choice(self.waiting))
        for _ in range(5):
            for workload in self._drawn():
                self._apply(workload)


class ByUsage(Noted):
    """The same with admission fair sharing."""

    def _beginning(self) -> list[Event]:
        self.world.sharing, self.by_usage = None, True
        self.world.queues.past.rules = UsageRules(half_life=HOUR, interval=HOUR)
        return super()._beginning()


KINDS = (Noted, NotedEvicting, Fair, WideFair, ByUsage)


def texts(scenes: int, steps: int) -> Iterator[tuple[int, str]]:
    """Yields each text with the number of its scene."""
    for number in range(scenes):
        scene = KINDS[number % len(KINDS)](number)
        for _ in range(steps):
            scene.step()
        yield from ((number, text) for text in scene.texts)


def run(scenes: int = 500, steps: int = 40, keep: str = "") -> None:
    """Prints the hash."""
    lines = [f"{number} {text}" for number, text in texts(scenes, steps)]
    if keep:
        Path(keep).write_text("\n".join(lines))
    digest = sha256("\n".join(lines).encode()).hexdigest()[:16]
    print(f"{scenes} scenes, {len(lines):,} texts: {digest}")
