"""Settings of the ungater process."""

from __future__ import annotations

from pydantic import Field

from api.kube.environment import Environment, Section


class UngaterSection(Section):
    """Settings for opening gates."""

    batch_period: float = Field(
        1.0, ge=0, description="seconds from a workload's first pod event to the pass it causes"
    )
    workers: int = Field(32, ge=1, description="workloads handled at once")
    patches: int = Field(48, ge=1, description="patches in flight at once, over all workloads")
    pin_nodes: bool = Field(
        True, description="where a domain is one host, also narrow node affinity to it by name: spares the scheduler"
    )


class UngaterSettings(Environment):
    """The settings of the process, read once by `ungater.app`."""

    ungater: UngaterSection = UngaterSection()
