"""What a feature adds to an admission cycle. cycle.py calls these hooks and knows no feature by name.

features/__init__.py lists the features. A hook that a feature does not implement does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from admission.engine.cycle.nomination import Nomination
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason


@dataclass(frozen=True, slots=True)
class CycleContext:
    """What one cycle decides on."""

    ledger: Ledger
    queues: PendingQueues


class Feature:
    """The hooks of one feature in one cycle."""

    def __init__(self, context: CycleContext) -> None:
        self.ledger, self.queues = context.ledger, context.queues

    def before_cycle(self) -> None:
        """Does what has to be done before any head is evaluated."""

    def turn(self, workload: Workload) -> AbstractContextManager[object] | None:
        """Returns a context for the turn of this head, in which it may use what is held for it; None if nothing is."""

    def instead_of_room(self, workload: Workload) -> tuple[Reason, str] | None:
        """Returns why this head waits, without evictions, if it does not fit; None if room may be made for it.

        It is asked before the head's turn begins.
        """

    def refuses(self, nomination: Nomination) -> tuple[Reason, str] | None:
        """Returns why this head may not start, although it fits; None if it may."""

    def starts(self, nomination: Nomination) -> tuple[Reason, str] | None:
        """Does what the start of this workload needs, which is charged already.

        Returns why it cannot start, None if it can; a member of a group starts all the same.
        """


class Features:
    """The features of one cycle, in the order in which they are asked."""

    def __init__(self, features: Sequence[Feature] = ()) -> None:
        self._features = features

    def before_cycle(self) -> None:
        """Calls the hook of every feature."""
        for feature in self._features:
            feature.before_cycle()

    @contextmanager
    def turn(self, workload: Workload) -> Iterator[None]:
        """Opens the contexts of all features for the turn of this head."""
        with ExitStack() as stack:
            for feature in self._features:
                if (context := feature.turn(workload)) is not None:
                    stack.enter_context(context)
            yield

    def instead_of_room(self, workload: Workload) -> tuple[Reason, str] | None:
        """Returns the first answer of a feature."""
        return _first(feature.instead_of_room(workload) for feature in self._features)

    def refuses(self, nomination: Nomination) -> tuple[Reason, str] | None:
        """Returns the first answer of a feature."""
        return _first(feature.refuses(nomination) for feature in self._features)

    def starts(self, nomination: Nomination) -> tuple[Reason, str] | None:
        """Returns the first answer of a feature; those after it are not asked."""
        return _first(feature.starts(nomination) for feature in self._features)


def _first(answers: Iterable[tuple[Reason, str] | None]) -> tuple[Reason, str] | None:
    return next((answer for answer in answers if answer is not None), None)
