"""What a feature adds to an admission cycle. cycle.py calls these hooks and knows no feature by name.

features/__init__.py lists the features. A hook that a feature does not implement does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Final

from admission.engine.cycle.heads.head_order import Head, HeadOrder
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.outcomes import Outcomes, Refusal
from admission.engine.cycle.reservations import Reservations
from admission.engine.decision import Decision
from admission.engine.flavors.assign import FlavorAssignment, Preemptions
from admission.engine.ledger.holds import HoldTerms
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, Workload
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import ReasonCode

Why = tuple[ReasonCode, str]
_NOTHING: Final = nullcontext()


@dataclass(frozen=True, slots=True)
class CycleContext:
    """What one cycle decides on."""

    ledger: Ledger
    queues: PendingQueues
    now: float
    """Epoch seconds."""
    fair: bool
    """Whether fair sharing is on."""


@dataclass(frozen=True, slots=True)
class CycleParts:
    """The parts of a running cycle, for a feature that decides on a head itself."""

    now: float
    """Epoch seconds."""
    fair: bool
    """Whether fair sharing is on."""
    preemptions: Preemptions
    order: HeadOrder
    reservations: Reservations
    outcomes: Outcomes
    refusal: Callable[[Nomination], Why | None]
    """Why a feature refuses this start, after evictions or without."""
    cannot_evaluate: Callable[[Workload, ClusterQueue], Why | None]
    """Why a workload cannot be evaluated, whatever capacity is free."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a feature changes in the turn of one head."""

    draws: AbstractContextManager[object] = _NOTHING
    """Opened during the turn: the head may use what is held for it."""
    search: AbstractContextManager[object] = _NOTHING
    """Opened besides if the flavors of the head are searched before its turn."""
    instead_of_room: Why | None = None
    """Why the head waits, without evictions, if it does not fit; None if room may be made for it."""
    room: Callable[[Head, ClusterQueue, FlavorAssignment, CycleParts], Decision | None] | None = None
    """Makes room for the head if it does not fit; without an answer the cycle does."""
    decide: Callable[[Head, ClusterQueue, CycleParts], Sequence[Decision]] | None = None
    """Decides on the head in place of the cycle: its own decision first; none if other heads come first."""


PLAIN: Final = Turn()
"""The turn of a head that no feature concerns."""


class Feature:
    """The hooks of one feature in one cycle."""

    field: ClassVar[str] = ""
    """The field of a Workload that is empty if the feature does not concern its turn; without one any turn may concern it."""
    annotations: ClassVar[tuple[str, ...]] = ()
    """Annotations of jobs and pods that the feature reads from `Workload.annotation`."""
    reasons: ClassVar[Iterable[ReasonCode]] = ()
    """Its own reasons why a workload waits."""
    holds: ClassVar[HoldTerms | None] = None
    """What it holds beside the ledger's kinds of holds (docs/reference/holds.md)."""

    def __init__(self, context: CycleContext) -> None:
        self.ledger, self.queues = context.ledger, context.queues
        self.requeued = False
        """Whether it has requeued refused workloads, so that another cycle may decide on them."""

    def before_cycle(self) -> None:
        """Does what has to be done before any head is evaluated."""

    def turn(self, workload: Workload) -> Turn | None:
        """Returns what the feature changes in the turn of this head, before it begins; None if nothing."""

    def allows(self, nomination: Nomination) -> Nomination | Why:
        """Returns why this workload may not start, although it fits now or after evictions; else the nomination with what the
        feature adds to it.
        """
        return nomination

    def starts(self, nomination: Nomination) -> Why | None:
        """Does what the start of this workload needs, which is charged already.

        Returns why it cannot start, None if it can; a member of a group starts all the same.
        """

    def waits(self, refusal: Refusal) -> Refusal:
        """Does what the wait of a refused head needs, and returns the refusal with what the feature adds to it."""
        return refusal


class Features:
    """The features of one cycle, in the order in which they are asked."""

    def __init__(self, features: Sequence[Feature] = ()) -> None:
        self._features = features
        self._at_turns = [(each.field, each) for each in features if type(each).turn is not Feature.turn]

    def before_cycle(self) -> None:
        """Calls the hook of every feature."""
        for feature in self._features:
            feature.before_cycle()

    def turn(self, workload: Workload) -> Turn:
        """Returns what the features that this head concerns change in its turn."""
        turns: list[Turn] = []
        for field, feature in self._at_turns:
            if (not field or getattr(workload, field)) and (turn := feature.turn(workload)) is not None:
                turns.append(turn)
        if not turns:
            return PLAIN
        return turns[0] if len(turns) == 1 else _joined(turns)

    @property
    def requeued(self) -> bool:
        """Whether a feature has requeued refused workloads."""
        return any(feature.requeued for feature in self._features)

    def allows(self, nomination: Nomination) -> Nomination | Why:
        """Returns the first refusal of a feature, else the nomination with what all add to it."""
        for feature in self._features:
            answer = feature.allows(nomination)
            if isinstance(answer, tuple):
                return answer
            nomination = answer
        return nomination

    def refusal(self, nomination: Nomination) -> Why | None:
        """Returns the first refusal of a feature."""
        answer = self.allows(nomination)
        return answer if isinstance(answer, tuple) else None

    def waits(self, refusal: Refusal) -> Refusal:
        """Returns the refusal with what all features add to it."""
        for feature in self._features:
            refusal = feature.waits(refusal)
        return refusal

    def starts(self, nomination: Nomination) -> Why | None:
        """Returns the first answer of a feature; those after it are not asked."""
        return _first(feature.starts(nomination) for feature in self._features)


def _first(answers: Iterable[Why | None]) -> Why | None:
    return next((answer for answer in answers if answer is not None), None)


def _joined(turns: Sequence[Turn]) -> Turn:
    """Returns one turn with the changes of all; if several decide on the head or refuse it room, the first."""
    return Turn(
        _all(turn.draws for turn in turns),
        _all(turn.search for turn in turns),
        _first(turn.instead_of_room for turn in turns),
        next((turn.room for turn in turns if turn.room is not None), None),
        next((turn.decide for turn in turns if turn.decide is not None), None),
    )


@contextmanager
def _all(contexts: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
