"""What it costs a running workload to stop and start again, and whether it may do so at another place, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RestartTerms:
    """The terms of a workload, or the defaults that its ClusterQueue gives; None leaves a field to the ClusterQueue."""

    movable: bool | None = None
    """It may be stopped and started at another place; not without this."""
    cost: int | None = None
    """The whole seconds that each of its devices loses besides the work since the last checkpoint (at least 0)."""
    minimum_run: int | None = None
    """The seconds that it runs undisturbed after its start and after each restart at another place (at least 0)."""
    checkpoint: float | None = None
    """When the job last saved its work (epoch seconds); None for never."""
    moved: float | None = None
    """When it was last sent to another place (epoch seconds); None for never."""
    times: int = 0
    """How often it was sent to another place."""
    moving: bool = False
    """It is on its way to another place."""

    def completed_by(self, general: RestartTerms) -> RestartTerms:
        """Returns the terms, with those that hold in general for what they leave open."""
        return replace(
            self,
            movable=general.movable if self.movable is None else self.movable,
            cost=general.cost if self.cost is None else self.cost,
            minimum_run=general.minimum_run if self.minimum_run is None else self.minimum_run,
        )

    def relocated(self, at: float) -> RestartTerms:
        """Returns the terms of the workload that was sent to another place at that time (epoch seconds)."""
        return replace(self, moved=at, times=self.times + 1)


NO_TERMS = RestartTerms()
