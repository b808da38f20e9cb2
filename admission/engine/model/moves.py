"""The terms under which a running workload may be moved, as frozen values (convert_moves.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MoveTerms:
    """The terms of a workload, or the defaults that its ClusterQueue gives; None leaves a field to the ClusterQueue.

    `movable`: the workload may be moved; not without this. `cost` is the whole seconds that each of its devices loses by a
    move besides the work since the last checkpoint (at least 0). `minimum_run` is the seconds that it runs undisturbed after
    its start and after each move (at least 0). `checkpoint` is when the job last saved its work, `moved` when it was last
    moved, both in epoch seconds, None for never. `moves` is how often it was moved, `moving` whether it is on its way.
    """

    movable: bool | None = None
    cost: int | None = None
    minimum_run: int | None = None
    checkpoint: float | None = None
    moved: float | None = None
    moves: int = 0
    moving: bool = False


NO_TERMS = MoveTerms()
