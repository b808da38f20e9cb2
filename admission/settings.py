"""Settings of the processes webhook and controller, read once by `admission.__main__`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from admission.engine.model import Counting, PlacementOptions, Profile
from admission.engine.quota.charging import ResourceRules, Transformation
from admission.engine.quota.fairness import FairSharingRules, FairStrategy
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from api import duration
from api.errors import InvalidQuantity
from api.kube.environment import Environment, Section
from api.quantity import CPU, parse
from api.sakkara import HIGHEST_PRIORITY, TOPOLOGY_NAMESPACE

SectionT = TypeVar("SectionT", bound=Section)
_TEN_YEARS = 315_360_000


def _seconds(given: Any) -> Any:
    """Converts a number of seconds or a Go duration (90s, 10m, 1h30m) to seconds. Raises ValueError."""
    if not isinstance(given, str):
        return given
    try:
        return float(given)
    except ValueError:
        return duration.seconds(given)


Duration = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=_TEN_YEARS, allow_inf_nan=False)]


def _switched(section: SectionT, switch: str, but: Set[str] = frozenset()) -> SectionT:
    """Raises ValueError if settings other than `but` are given without the switch that gives them effect.

    Kueue's configuration files may contain such settings; they must not turn the feature on.
    """
    idle = sorted(to_camel(name) for name in section.model_fields_set - {switch} - but)
    if idle and switch not in section.model_fields_set:
        raise ValueError(
            f"{', '.join(idle)} has no effect without {switch}: say {switch}: true, or false to leave it off"
        )
    return section


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


class RequeuingSection(Section):
    """How a workload is requeued whose pods did not become ready in time."""

    timestamp: Literal["Eviction", "Creation"] = Field(
        "Eviction", description="the time by which a workload queues again after its eviction"
    )
    backoff_base_seconds: int = Field(
        60, ge=1, le=_TEN_YEARS, description="the first wait; each further one is twice as long"
    )
    backoff_max_seconds: int = Field(3600, ge=1, le=_TEN_YEARS, description="the longest wait before it queues again")
    backoff_limit_count: int | None = Field(None, ge=0, description="comes back so often, then it is deactivated")


class PodsReadySection(Section):
    """Evicts admitted workloads whose pods do not become ready in time."""

    enabled: bool = Field(False, description="evict admitted workloads whose pods are not ready in time")
    timeout: Duration = Field(1800.0, description="from the admission until all pods are ready")
    recovery_timeout: Duration | None = Field(
        None, description="from the failure of a pod on; none: as long as timeout"
    )
    block_admission: bool = Field(
        False, description="admit the next workload only when the pods of all others are ready"
    )
    requeuing_strategy: RequeuingSection = RequeuingSection()

    @model_validator(mode="after")
    def _said_to_be_on(self) -> Self:
        # the requeuing strategy's timestamp also applies to other evictions
        return _switched(self, "enabled", but={"requeuing_strategy"})


class WorkloadRetentionSection(Section):
    """How long objects are retained; null: for ever."""

    after_finished: Duration | None = Field(None, description="finished Workloads are deleted then; their jobs stay")
    after_deactivated_by_kueue: Duration | None = Field(
        None, description="jobs are deleted then whose workloads Stowage itself deactivated (not a user)"
    )


class RetentionSection(Section):
    """Retention of objects by kind."""

    workloads: WorkloadRetentionSection = WorkloadRetentionSection()


class SelectorExpression(Section):
    """One requirement of a label selector."""

    key: str = Field(min_length=1)
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise ValueError("In and NotIn need values, Exists and DoesNotExist have none")
        return self


class SelectorSection(Section):
    """A label selector; an empty one selects everything."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: tuple[SelectorExpression, ...] = ()


class FairSharingSection(Section):
    """Fair sharing: queues and cohorts share lent quota by weight, and those above their share are evicted first."""

    enable: bool = Field(False, description="share what a cohort lends by the weights of its queues")
    preemption_strategies: tuple[FairStrategy, ...] = Field(
        (), description="which evictions are fair, tried in this order; none named: both"
    )

    @field_validator("preemption_strategies")
    @classmethod
    def _known_order(cls, given: tuple[FairStrategy, ...]) -> tuple[FairStrategy, ...]:
        both = tuple(FairStrategy)
        if given not in ((), both[:1], both[1:], both):
            raise ValueError(f"must be one of {both[0]}, {both[1]}, or both in that order")
        return given

    @model_validator(mode="after")
    def _said_to_be_on(self) -> Self:
        return _switched(self, "enable")

    def rules(self) -> FairSharingRules | None:
        """Returns the engine's rules, or None without fair sharing."""
        if not self.enable:
            return None
        return FairSharingRules(self.preemption_strategies) if self.preemption_strategies else FairSharingRules()


class TransformationSection(Section):
    """Converts one resource to amounts of others when quota is counted."""

    input: str = Field(min_length=1)
    strategy: Literal["Retain", "Replace"] = Field(
        "Retain", description="whether it counts for itself as well, or only for the others"
    )
    multiply_by: str | None = Field(
        None, min_length=1, description="the outputs count as often as there are units of this resource in the request"
    )
    outputs: dict[str, str | int | float] = Field(default_factory=dict, description="amounts for a unit of the input")

    @field_validator("outputs")
    @classmethod
    def _amounts(cls, given: dict[str, str | int | float]) -> dict[str, str | int | float]:
        for name, amount in given.items():
            try:
                negative = parse(amount) < 0
            except InvalidQuantity as bad:
                raise ValueError(f"{name}: {amount!r}: {bad.allowed}") from None
            if negative:
                raise ValueError(f"{name}: {amount!r}: must not be negative")
        return given

    def transformation(self) -> Transformation:
        """Returns the engine's transformation. Outputs are per whole unit of the input; cpu counts in milli-units."""
        each = {name: parse(amount) * _milli(name) / _milli(self.input) for name, amount in self.outputs.items()}
        return Transformation(self.input, each, self.strategy == "Retain", self.multiply_by)


def _milli(resource: str) -> Fraction:
    return Fraction(1000 if resource == CPU else 1)


class ResourcesSection(Section):
    """Which requests count in quota; placement always counts all."""

    exclude_resource_prefixes: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="resources whose names begin with one of these do not count in quota"
    )
    transformations: tuple[TransformationSection, ...] = Field(
        (), description="resources that count in quota for amounts of others: input, strategy, multiplyBy, outputs"
    )

    @field_validator("transformations")
    @classmethod
    def _once(cls, given: tuple[TransformationSection, ...]) -> tuple[TransformationSection, ...]:
        inputs = [each.input for each in given]
        twice = sorted({name for name in inputs if inputs.count(name) > 1})
        if twice:
            raise ValueError(f"only one transformation for each input, there are more for {', '.join(twice)}")
        return given

    def rules(self) -> ResourceRules:
        """Returns the engine's rules."""
        return ResourceRules(
            self.exclude_resource_prefixes, tuple(each.transformation() for each in self.transformations)
        )


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


class IntegrationsSection(Section):
    """Labels and annotations that are copied from jobs and pods."""

    label_keys_to_copy: tuple[str, ...] = Field(
        (), description="labels of jobs and pods that their Workloads carry, too; pods of one group must not contradict"
    )
    annotation_keys_to_copy: tuple[str, ...] = Field((), description="annotations likewise")


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


class LocalQueueMetricsSection(Section):
    """Metrics of each LocalQueue."""

    enable: bool = Field(True, description="publish the metrics of each LocalQueue")


class MetricsSection(Section):
    """Optional metrics."""

    enable_cluster_queue_resources: bool = Field(
        False, description="quotas and usage of each ClusterQueue by flavor and resource"
    )
    local_queue_metrics: LocalQueueMetricsSection = LocalQueueMetricsSection()


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
