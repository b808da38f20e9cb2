"""Settings of the processes webhook and controller, read once by `admission.__main__`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from admission.engine.model import Counting, PlacementOptions, Profile
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from admission.kueue_settings import (
    Duration,
    FairSharingSection,
    IntegrationsSection,
    MetricsSection,
    PodsReadySection,
    ResourcesSection,
    RetentionSection,
    SelectorSection,
)
from api.kube.environment import Environment, Section
from api.sakkara import HIGHEST_PRIORITY, TOPOLOGY_NAMESPACE


class PlacementSection(Section):
    """How pods are placed. Settings that are feature gates in Kueue have the same defaults as there."""

    counting: Counting = Field(
        Counting.NODES,
        description="what a level wider than a host counts: pods that fit node by node, or the sum of the domain",
    )
    profile: Profile = Field(
        Profile.EXACT, description="how domains are chosen where neither the job nor its queue names a profile"
    )
    exact_budget: int = Field(
        20_000, ge=1, description="search nodes that an exact solver may look at for one decision"
    )
    least_free_for_unconstrained: bool = Field(
        True, description="pods that ask for no level go to the domains with the least free capacity first"
    )
    balanced: bool = Field(
        False, description="where a level is preferred, spread the pods evenly over the domains that are used"
    )
    multi_layer: bool = Field(True, description="slices at several levels; off: only the widest level counts")
    respect_preferred_affinity: bool = Field(
        False, description="try the nodes first that the preferred node affinity of the pods names"
    )
    overlapping_flavors: bool = Field(True, description="count a node once that several flavors select")

    def options(self) -> PlacementOptions:
        """Returns the engine's placement options."""
        return PlacementOptions(**self.model_dump())


class ControllerSection(Section):
    """The controller process."""

    short_workload_names: bool = Field(False, description="names of Workloads have at most 63 characters")
    assign_queue_labels: bool = Field(True, description="pods carry the names of their queues as labels")
    reclaimable_pods: bool = Field(True, description="pods that are done give their quota back at once")

    job_workers: int = Field(16, ge=1, description="jobs handled at once, per kind")
    workload_workers: int = Field(8, ge=1, description="workloads handled at once")
    writes: int = Field(64, ge=1, description="admissions written at once")
    pod_writes: int = Field(
        256, ge=1, description="plain pods and their gangs handled, and writes on them in flight, at once"
    )
    cycle_budget: int = Field(64, ge=1, description="admissions decided before the loop lets others run")
    open_templates: bool = Field(
        False,
        description="jobs whose pods all go to one domain start with open pods that name it: spares their patches, but a "
        "lost pod cannot move without a restart of its job",
    )
    unschedulable_timeout: Duration | None = Field(
        300.0,
        description="a workload of which pods stay Unschedulable for so long after their gate was opened is evicted and queues "
        "again; none: never",
    )
    replace_nodes_together: bool = Field(
        True,
        description="several failed nodes of a workload are replaced together; off, as in Kueue: a workload that loses a "
        "second node before the first is replaced is evicted",
    )
    finish_orphaned_workloads: bool = Field(
        True, description="a Workload whose job is gone becomes Finished before its finalizer goes"
    )
    legacy_wait_reasons: bool = Field(
        False,
        description="QuotaReserved=False gives Kueue's older reasons, for tools that read them: Pending (no place yet), "
        "Inadmissible (its queue takes nothing) and Waiting (waitForPodsReady)",
    )
    wait_report_period: float = Field(
        10.0,
        ge=0,
        description="seconds between two updates of the numbers in one workload's wait reason; more where many wait",
    )
    explain_after: float = Field(
        5.0, ge=0, description="seconds that a workload has waited before it is explained what would let it in"
    )
    explain_period: float = Field(
        300.0, ge=0, description="seconds between two such explanations of one workload while its reason stays the same"
    )
    events_per_second: float = Field(
        10.0, gt=0, description="events sent; a burst of jobs tells its story a little later instead of slower"
    )
    snapshots: bool = Field(
        False, description="answer GET /snapshot on the health port with all that the next decision depends on"
    )
    queue_status_period: float = Field(
        1.0, ge=0, description="seconds between two updates of one queue's status; more where many change"
    )


class SchedulersSection(Section):
    """Schedulers, besides the stock one, that queued pods may name."""

    taken_over: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (),
        description="pods that name one of these go to the stock scheduler, as those of capacityscheduler and sakkara do",
    )
    kept: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="schedulers that run in this cluster: pods that name one of these go to it"
    )

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if both := sorted(set(self.taken_over) & set(self.kept)):
            raise ValueError(f"takenOver and kept exclude each other, both name {', '.join(both)}")
        return self


class SakkaraSection(Section):
    """Sakkara's ConfigMaps of groups and topology trees."""

    topology_namespace: str = Field(TOPOLOGY_NAMESPACE, min_length=1, description="where the topology ConfigMaps are")
    highest_priority: int = Field(
        HIGHEST_PRIORITY,
        ge=0,
        le=2**31 - 1,
        description="of a group by its ConfigMap alone; more takes a PriorityClass, which a ResourceQuota can guard",
    )


class WebhookSection(Section):
    """The webhook process."""

    host: str = Field("0.0.0.0", description="the address at which the webhook listens")
    port: int = Field(9443, ge=0, le=65535, description="0 picks a free one")
    service: str = Field(
        "stowage-webhook", description="the Service by which the API server reaches it, in the namespace of the process"
    )
    url: str | None = Field(None, description="where the API server reaches us when not by the Service (development)")
    certificates: Literal["SelfSigned", "Files"] = Field(
        "SelfSigned",
        description="whether it makes its serving certificate itself, or reads files that another tool renews",
    )
    secret: str = Field("stowage-webhook-server-cert", description="the Secret that keeps a certificate of its own")
    certificate_dir: Path = Field(
        Path("/tmp/stowage-webhook/serving-certs"),  # noqa: S108  the mount of the certmanager component
        description="the folder of tls.crt, tls.key and ca.crt, with Files",
    )
    certificate_days: float = Field(90, gt=0, description="the successor is made when a third of them is left")
    certificate_settle: float = Field(120.0, gt=0, description="seconds that trust and replicas get to follow a change")
    certificate_period: float = Field(10.0, gt=0, description="seconds between two looks at the certificate")
    client_ca_file: Path | None = Field(
        None, description="CAs of the certificates that clients must show, as the API server does where it is given one"
    )
    client_names: tuple[str, ...] = Field((), description="common names of these certificates; none: any of the CAs'")
    mutating_configuration: str = Field(
        "stowage-mutating-webhook-configuration", description="the configuration that gets the CA of its certificate"
    )
    validating_configuration: str = Field("stowage-validating-webhook-configuration", description="likewise")

    @model_validator(mode="after")
    def _names_need_certificates(self) -> Self:
        if self.client_names and self.client_ca_file is None:
            raise ValueError("clientNames has no effect without clientCaFile")
        return self


class AdmissionSettings(Environment):
    """All settings, as keys of the file and as variables STOWAGE_<NAME>.

    A setting that Kueue has too has Kueue's name.
    """

    manage_jobs_without_queue_name: bool = Field(False, description="jobs that name no queue wait, too, until they do")
    managed_jobs_namespace_selector: SelectorSection | None = Field(
        None, description="namespaces whose jobs are managed; none: all but kube-system and our own"
    )
    wait_for_pods_ready: PodsReadySection = PodsReadySection()
    object_retention_policies: RetentionSection = RetentionSection()

    feature_gates: FeatureGates = DEFAULT_GATES
    fair_sharing: FairSharingSection = FairSharingSection()
    metrics: MetricsSection = MetricsSection()
    resources: ResourcesSection = ResourcesSection()
    placement: PlacementSection = PlacementSection()
    integrations: IntegrationsSection = IntegrationsSection()
    sakkara: SakkaraSection = SakkaraSection()
    schedulers: SchedulersSection = SchedulersSection()
    controller: ControllerSection = ControllerSection()
    webhook: WebhookSection = WebhookSection()

    @property
    def managed_namespaces(self) -> Mapping[str, Any]:
        """The label selector of the namespaces whose jobs are managed."""
        selector = self.managed_jobs_namespace_selector
        if selector is not None:
            return selector.model_dump(by_alias=True)
        own = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", self.namespace]}
        return {"matchExpressions": [own]}
