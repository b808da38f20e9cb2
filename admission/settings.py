"""Settings of the processes webhook, controller and dashboard, read once by `admission.__main__`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from admission.engine.model import Counting, PlacementOptions, Profile
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from admission.forecast_settings import ForecastSettings
from admission.kueue_settings import (
    AdmissionFairSharingSection,
    Duration,
    FairSharingSection,
    IntegrationsSection,
    MetricsSection,
    PodsReadySection,
    ResourcesSection,
    RetentionSection,
    SelectorSection,
    VisibilityServerSection,
)
from api.names import NAMESPACE_NAME_LABEL
from api.pod.labels import matches
from api.process.environment import Environment, Section
from api.sakkara import HIGHEST_PRIORITY, TOPOLOGY_NAMESPACE


class PlacementSection(Section):
    """How pods are placed. Settings that are feature gates in Kueue have the same defaults as there."""

    counting: Counting = Field(
        Counting.NODES,
        description="how capacity of levels above hosts is counted: pods that fit node by node, or the domain's total",
    )
    profile: Profile = Field(
        Profile.EXACT, description="placement profile of jobs whose annotations and queue name none"
    )
    exact_budget: int = Field(20_000, ge=1, description="search nodes that an exact solver may visit per decision")
    least_free_for_unconstrained: bool = Field(
        True, description="place pods without a topology level in domains with the least free capacity first"
    )
    balanced: bool = Field(False, description="with a preferred level, spread the pods evenly over the used domains")
    multi_layer: bool = Field(True, description="support slices at several levels; off: only the widest level counts")
    respect_preferred_affinity: bool = Field(
        False, description="try nodes that the pods' preferred node affinity matches first"
    )
    overlapping_flavors: bool = Field(True, description="count a node that several flavors select only once")

    def options(self) -> PlacementOptions:
        """Returns the engine's placement options."""
        return PlacementOptions(**self.model_dump())


class ControllerSection(ForecastSettings):
    """The controller process."""

    short_workload_names: bool = Field(False, description="limit names of Workloads to 63 characters")
    assign_queue_labels: bool = Field(True, description="set labels with the names of the queues on pods")
    reclaimable_pods: bool = Field(True, description="release the quota of ended pods at once")

    job_workers: int = Field(16, ge=1, description="jobs that are reconciled at once, per kind")
    workload_workers: int = Field(8, ge=1, description="workloads that are reconciled at once")
    writes: int = Field(64, ge=1, description="admissions written at once")
    pod_writes: int = Field(
        256, ge=1, description="plain pods and gangs that are reconciled at once, and their writes in flight"
    )
    cycle_budget: int = Field(64, ge=1, description="admissions that one cycle decides before other tasks run")
    open_templates: bool = Field(
        False,
        description="start jobs whose pods all go to one domain without gates, with the domain in the template: saves patches, "
        "but a lost pod cannot move without a restart of its job",
    )
    unschedulable_timeout: Duration | None = Field(
        300.0,
        description="evict and requeue a workload with pods that stay Unschedulable for this time after their gate was opened, "
        "or that the API server refuses to create; none: never",
    )
    replace_nodes_together: bool = Field(
        True,
        description="replace several failed nodes of a workload together; off, as in Kueue: a workload that loses a "
        "second node before the first is replaced is evicted",
    )
    finish_orphaned_workloads: bool = Field(
        True, description="mark a Workload whose job was deleted as Finished before removing its finalizer"
    )
    legacy_wait_reasons: bool = Field(
        False,
        description="use Kueue's older reasons of QuotaReserved=False, for tools that read them: Pending (no placement yet), "
        "Inadmissible (its queue is stopped or inactive) and Waiting (waitForPodsReady)",
    )
    wait_report_period: float = Field(
        10.0,
        ge=0,
        description="seconds between two updates of the numbers in one workload's wait reason; more if many workloads wait",
    )
    explain_after: float = Field(
        5.0, ge=0, description="seconds of waiting before a workload's status explains what would admit it"
    )
    explain_period: float = Field(
        300.0, ge=0, description="seconds between two explanations of one workload while its reason is the same"
    )
    fresh_look_period: float = Field(
        60.0, gt=0, description="seconds between two fresh looks at a few waiting workloads, which find lost wake-ups"
    )
    fresh_look_workloads: int = Field(
        3, ge=0, le=100, description="waiting workloads that a fresh look evaluates anew; 0: none"
    )
    moves: bool = Field(
        False,
        description="move running workloads that allow it to other places so that a waiting workload gets its domain",
    )
    moves_after: float = Field(
        30.0, ge=0, description="seconds that a workload waits for a place before others are moved for it"
    )
    events_per_second: float = Field(
        10.0, gt=0, description="events sent per second; events of a burst are delayed instead of slowing admission"
    )
    snapshots: bool = Field(
        False, description="serve GET /snapshot on the health port with the input of the next decision"
    )
    queue_status_period: float = Field(
        1.0, ge=0, description="seconds between two updates of one queue's status; more if many change"
    )


class SchedulersSection(Section):
    """Schedulers, besides the stock one, that queued pods may name."""

    taken_over: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (),
        description="schedulers that the stock scheduler replaces, besides built-in ones such as capacityscheduler",
    )
    kept: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="schedulers that run in this cluster and may bind pods that name them"
    )

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if both := sorted(set(self.taken_over) & set(self.kept)):
            raise ValueError(f"takenOver and kept exclude each other, both name {', '.join(both)}")
        return self


class SakkaraSection(Section):
    """Sakkara's ConfigMaps of groups and topology trees."""

    topology_namespace: str = Field(
        TOPOLOGY_NAMESPACE, min_length=1, description="namespace of the topology ConfigMaps"
    )
    highest_priority: int = Field(
        HIGHEST_PRIORITY,
        ge=0,
        le=2**31 - 1,
        description="highest priority in a group's ConfigMap; higher needs a PriorityClass, which a ResourceQuota can limit",
    )
    priority_across_namespaces: bool = Field(
        False,
        description="priorities in ConfigMaps of groups count toward work of other namespaces too",
    )


class WebhookSection(Section):
    """The webhook process."""

    host: str = Field("0.0.0.0", description="listen address of the webhook")
    port: int = Field(9443, ge=0, le=65535, description="port of the webhook; 0 selects a free one")
    service: str = Field("stowage-webhook", description="Service of the webhook, in the namespace of the process")
    url: str | None = Field(
        None, description="URL at which the API server reaches the webhook instead of by the Service (development)"
    )
    certificates: Literal["SelfSigned", "Files"] = Field(
        "SelfSigned",
        description="create the serving certificate, or read files that another tool renews",
    )
    secret: str = Field("stowage-webhook-server-cert", description="Secret that stores the self-signed certificate")
    certificate_dir: Path = Field(
        Path("/tmp/stowage-webhook/serving-certs"),  # noqa: S108  the mount of the certmanager component
        description="folder of tls.crt, tls.key and ca.crt, with Files",
    )
    certificate_days: float = Field(
        90, gt=0, description="days of validity; the successor is created when a third is left"
    )
    certificate_settle: float = Field(
        120.0, gt=0, description="seconds that clients and replicas get to follow a rotation"
    )
    certificate_period: float = Field(10.0, gt=0, description="seconds between two checks of the certificate")
    client_ca_file: Path | None = Field(
        None, description="file with CAs of required client certificates, for an API server that is configured with one"
    )
    client_names: tuple[str, ...] = Field(
        (), description="common names of allowed client certificates; empty: all that these CAs signed"
    )
    mutating_configuration: str = Field(
        "stowage-mutating-webhook-configuration", description="mutating configuration to which the CA is written"
    )
    validating_configuration: str = Field(
        "stowage-validating-webhook-configuration", description="validating configuration to which the CA is written"
    )

    @model_validator(mode="after")
    def _names_need_certificates(self) -> Self:
        if self.client_names and self.client_ca_file is None:
            raise ValueError("clientNames has no effect without clientCaFile")
        return self


class DashboardSection(Section):
    """The dashboard process."""

    host: str = Field("0.0.0.0", description="listen address of the dashboard")
    port: int = Field(9444, ge=0, le=65535, description="port of the dashboard; 0 selects a free one")
    service: str = Field("stowage-dashboard", description="Service of the dashboard, in the namespace of the process")
    cluster_name: str = Field("", max_length=253, description="name of the cluster that the page shows")
    certificates: Literal["SelfSigned", "Files"] = Field(
        "SelfSigned", description="create the serving certificate, or read files that another tool renews"
    )
    secret: str = Field("stowage-dashboard-server-cert", description="Secret that stores the self-signed certificate")
    certificate_dir: Path = Field(
        Path("/tmp/stowage-dashboard/serving-certs"),  # noqa: S108  where a Secret of another tool is mounted
        description="folder of tls.crt and tls.key, with Files",
    )
    certificate_days: float = Field(
        90, gt=0, description="days of validity; the successor is created when a third is left"
    )
    certificate_period: float = Field(10.0, gt=0, description="seconds between two checks of the certificate")


class AdmissionSettings(Environment):
    """All settings, as keys of the file and as variables STOWAGE_<NAME>.

    A setting that Kueue has too has Kueue's name.
    """

    manage_jobs_without_queue_name: bool = Field(
        False, description="also suspend jobs that name no queue, until they do"
    )
    managed_jobs_namespace_selector: SelectorSection | None = Field(
        None, description="namespaces whose jobs are managed; none: all but kube-system and that of Stowage"
    )
    wait_for_pods_ready: PodsReadySection = PodsReadySection()
    object_retention_policies: RetentionSection = RetentionSection()

    feature_gates: FeatureGates = DEFAULT_GATES
    fair_sharing: FairSharingSection = FairSharingSection()
    admission_fair_sharing: AdmissionFairSharingSection = AdmissionFairSharingSection()
    metrics: MetricsSection = MetricsSection()
    resources: ResourcesSection = ResourcesSection()
    placement: PlacementSection = PlacementSection()
    integrations: IntegrationsSection = IntegrationsSection()
    sakkara: SakkaraSection = SakkaraSection()
    schedulers: SchedulersSection = SchedulersSection()
    controller: ControllerSection = ControllerSection()
    webhook: WebhookSection = WebhookSection()
    dashboard: DashboardSection = DashboardSection()
    visibility_server: VisibilityServerSection = VisibilityServerSection()

    @field_validator("managed_jobs_namespace_selector")
    @classmethod
    def _without_the_system(cls, section: SelectorSection | None, info: ValidationInfo) -> SelectorSection | None:
        """Pods of the control plane and of Stowage itself must not wait for Stowage; Kueue refuses such a selector too."""
        selector = None if section is None else section.model_dump(by_alias=True)
        for name in ("kube-system", info.data["namespace"]):
            if matches(selector, {NAMESPACE_NAME_LABEL: name}):
                raise ValueError(
                    f"must not select the namespace {name}: exclude it by its label {NAMESPACE_NAME_LABEL}"
                )
        return section

    @property
    def managed_namespaces(self) -> Mapping[str, Any]:
        """The label selector of the namespaces whose jobs are managed."""
        selector = self.managed_jobs_namespace_selector
        if selector is not None:
            return selector.model_dump(by_alias=True)
        own = {"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": ["kube-system", self.namespace]}
        return {"matchExpressions": [own]}
