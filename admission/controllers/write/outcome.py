"""What became of a write of a Workload's status."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What became of a write. The values are those of the label `outcome` of metrics."""

    WRITTEN = "written"
    """The API server has the new status."""
    UNCHANGED = "unchanged"
    """Nothing was to be written."""
    OBSOLETE = "obsolete"
    """The Workload is gone, or no longer in the state that the decision assumed."""
    STALE = "stale"
    """The Workload changed since the decision, which is taken again."""
    FAILED = "failed"
    """The API server refused the write, or others wrote first again and again."""
    FENCED = "fenced"
    """This replica no longer leads."""
    LEFT = "left"
    """Of a new place: the workload has left its place by itself."""
    CHANGED = "changed"
    """Of a new place: the workload changed so that it stays."""

    @property
    def is_final(self) -> bool:
        """Whether the decision is over: nothing has to be decided again."""
        return self in (Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.OBSOLETE, Outcome.FENCED)
