"""Settings of the ungater process."""

from __future__ import annotations

from pydantic import Field

from api.process.environment import Environment, Section


class UngaterSection(Section):
    """Settings for opening gates."""

    batch_period: float = Field(
        1.0, ge=0, description="seconds from a workload's first pod event to the reconcile that it triggers"
    )
    workers: int = Field(32, ge=1, description="workloads that are reconciled at once")
    patches: int = Field(48, ge=1, description="patches in flight at once, for all workloads")
    pin_nodes: bool = Field(
        True,
        description="for a domain of one host, also narrow the pod's node affinity to its name, which saves scheduling time",
    )
    clear_managers: bool = Field(
        True,
        description="also erase metadata.managedFields of a pod that no client applies server-side: the API server then "
        "records no field managers for its later writes, which saves it CPU",
    )


class UngaterSettings(Environment):
    """The settings of the process, read once by `ungater.app`."""

    ungater: UngaterSection = UngaterSection()
