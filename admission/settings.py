"""Settings of the two admission processes (webhook and controller), read once by `admission.__main__`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from admission.engine.model import Counting, PlacementOptions, Profile
from api.kube.environment import Environment, Section


class PlacementSection(Section):
    """How pods are placed; the gates keep the peer's defaults."""

    counting: Counting = Counting.NODES
    profile: Profile = Profile.EXACT
    exact_budget: int = Field(
        20_000, ge=1, description="search nodes that an exact solver may look at for one decision"
    )
    least_free_for_unconstrained: bool = True
    balanced: bool = False
    multi_layer: bool = True
    respect_preferred_affinity: bool = False
    overlapping_flavors: bool = True

    def options(self) -> PlacementOptions:
        """As the engine takes them."""
        return PlacementOptions(**self.model_dump())


class ControllerSection(Section):
    """The controller process."""

    job_workers: int = Field(16, ge=1, description="jobs handled at once, per kind")
    workload_workers: int = Field(8, ge=1)
    writes: int = Field(32, ge=1, description="admissions written at once")
    cycle_budget: int = Field(64, ge=1, description="admissions decided before the loop lets others run")
    open_templates: bool = Field(
        True,
        description="jobs whose pods all go to one domain wider than a host start with open pods: spares their patches",
    )
    wait_report_period: float = Field(
        10.0, ge=0, description="seconds between two updates of the numbers in one workload's wait reason"
    )
    explain_after: float = Field(
        5.0, ge=0, description="seconds that a workload has waited before it is explained what would let it in"
    )
    explain_period: float = Field(
        300.0, ge=0, description="seconds between two such explanations of one workload while its reason stays the same"
    )
    events_per_second: float = Field(
        20.0, gt=0, description="events sent; a burst of jobs tells its story a little later instead of slower"
    )
    snapshots: bool = Field(
        False, description="answer GET /snapshot on the health port with all that the next decision depends on"
    )
    queue_status_period: float = Field(1.0, ge=0, description="seconds between two updates of one queue's status")


class WebhookSection(Section):
    """The webhook process."""

    host: str = "0.0.0.0"
    port: int = Field(9443, ge=0, le=65535, description="0 picks a free one")
    service: str = "stowage-webhook"
    url: str | None = Field(None, description="where the API server reaches us when not by the Service (development)")
    certificates: Literal["SelfSigned", "Files"] = "SelfSigned"
    secret: str = "stowage-webhook-server-cert"  # noqa: S105  the Secret's name
    certificate_dir: Path = Path("/tmp/stowage-webhook/serving-certs")  # noqa: S108  the mount of the certmanager component
    certificate_days: float = Field(90, gt=0, description="the successor is made when a third of them is left")
    certificate_settle: float = Field(120.0, gt=0, description="seconds that trust and replicas get to follow a change")
    certificate_period: float = Field(10.0, gt=0, description="seconds between two looks at the certificate")
    mutating_configuration: str = "stowage-mutating-webhook-configuration"
    validating_configuration: str = "stowage-validating-webhook-configuration"


class AdmissionSettings(Environment):
    """Everything, under the names of the file and of the variables STOWAGE_<NAME>."""

    placement: PlacementSection = PlacementSection()
    controller: ControllerSection = ControllerSection()
    webhook: WebhookSection = WebhookSection()
