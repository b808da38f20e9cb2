"""The settings of forecasts, which are keys of the section `controller`."""

from __future__ import annotations

from pydantic import Field

from api.process.environment import Section


class ForecastSettings(Section):
    """Forecasts of starts, and the run times that they learn from."""

    forecasts: bool = Field(
        False,
        description="learn run times, and write to each waiting workload's status when it is expected to start",
    )
    forecast_period: float = Field(
        60.0, gt=0, description="seconds between two forecasts of all waiting workloads; more if one takes long"
    )
    run_times_period: float = Field(
        300.0, gt=0, description="seconds between two writes of learned run times to the ConfigMap stowage-run-times"
    )

    def run_times_in(self, namespace: str) -> str:
        """Returns the namespace of the ConfigMap of learned run times, of Stowage's; empty if none are learned."""
        return namespace if self.forecasts else ""
