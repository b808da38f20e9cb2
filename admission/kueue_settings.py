"""Sections of the settings that Kueue's Configuration has too, under Kueue's names. settings.py combines them with ours."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Set
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from admission.engine.queue.past_usage import UsageRules
from admission.engine.quota.charging import ResourceRules, Transformation
from admission.engine.quota.fairness import FairSharingRules, FairStrategy
from api.errors import InvalidQuantity
from api.process.environment import Section
from api.text import duration
from api.text.quantity import CPU, parse

SectionT = TypeVar("SectionT", bound=Section)
_TEN_YEARS = 315_360_000
_NOT_PLAIN: Final = re.compile(r"[^!-~]|_")


def _seconds(value: Any) -> Any:
    """Converts a number of seconds or a Go duration (90s, 10m, 1h30m) to seconds. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        # float() also reads digits of other scripts, blanks and underscores
        return duration.seconds(value) if _NOT_PLAIN.search(value) else float(value)
    except ValueError:
        return duration.seconds(value)


def _ip_address(text: str) -> str:
    """Raises ValueError unless it is an IP address."""
    ipaddress.ip_address(text)
    return text


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


class RequeuingSection(Section):
    """How a workload is requeued whose pods did not become ready in time."""

    timestamp: Literal["Eviction", "Creation"] = Field(
        "Eviction", description="timestamp by which an evicted workload is ordered in its queue"
    )
    backoff_base_seconds: int = Field(60, ge=1, le=_TEN_YEARS, description="first backoff; doubles each time")
    backoff_max_seconds: int = Field(3600, ge=1, le=_TEN_YEARS, description="longest backoff")
    backoff_limit_count: int | None = Field(
        None, ge=0, description="number of requeues after which the workload is deactivated; none: unlimited"
    )


class PodsReadySection(Section):
    """Evicts admitted workloads whose pods do not become ready in time."""

    enabled: bool = Field(False, description="evict admitted workloads whose pods are not ready in time")
    timeout: Duration = Field(1800.0, description="time from the admission until all pods must be ready")
    recovery_timeout: Duration | None = Field(
        None, description="time to recover after a pod fails; none: the same as timeout"
    )
    block_admission: bool = Field(
        False, description="admit the next workload only when the pods of all others are ready"
    )
    requeuing_strategy: RequeuingSection = RequeuingSection()

    @model_validator(mode="after")
    def _enabled_gates(self) -> Self:
        # the requeuing strategy's timestamp also applies to other evictions
        return _switched(self, "enabled", but={"requeuing_strategy"})


class WorkloadRetentionSection(Section):
    """How long objects are retained; null: for ever."""

    after_finished: Duration | None = Field(
        7 * 86400.0,
        description="time after which finished Workloads are deleted, those without a job too; their jobs stay. none: never",
    )
    after_deactivated_by_kueue: Duration | None = Field(
        None,
        description="time after which jobs are deleted whose workloads Stowage (not a user) deactivated; none: never",
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
        (), description="strategies of fair preemption, tried in this order; empty: both"
    )

    @field_validator("preemption_strategies")
    @classmethod
    def _known_order(cls, strategies: tuple[FairStrategy, ...]) -> tuple[FairStrategy, ...]:
        both = tuple(FairStrategy)
        if strategies not in ((), both[:1], both[1:], both):
            raise ValueError(f"must be one of {both[0]}, {both[1]}, or both in that order")
        return strategies

    @model_validator(mode="after")
    def _enabled_gates(self) -> Self:
        return _switched(self, "enable")

    def rules(self) -> FairSharingRules | None:
        """Returns the engine's rules, or None without fair sharing."""
        if not self.enable:
            return None
        return FairSharingRules(self.preemption_strategies) if self.preemption_strategies else FairSharingRules()


class AdmissionFairSharingSection(Section):
    """Admission fair sharing: past usage of LocalQueues orders the workloads of ClusterQueues whose admissionScope says so."""

    usage_half_life_time: Duration | None = Field(
        None, description="time after which past usage counts half; 0: past usage never counts. none: off"
    )
    usage_sampling_interval: Duration = Field(
        300.0, ge=1, description="time between two samples of the usage; also sets the penalty of each admission"
    )
    resource_weights: dict[str, Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]] = Field(
        default_factory=dict, max_length=64, description="weights of resources in past usage; 1 where none is given"
    )

    @model_validator(mode="after")
    def _enabled_gates(self) -> Self:
        if self.usage_half_life_time is None and (idle := sorted(map(to_camel, self.model_fields_set))):
            raise ValueError(f"{', '.join(idle)} has no effect without usageHalfLifeTime")
        return self

    def rules(self) -> UsageRules | None:
        """Returns the engine's rules, or None without admission fair sharing."""
        if self.usage_half_life_time is None:
            return None
        return UsageRules(self.usage_half_life_time, self.usage_sampling_interval, self.resource_weights)


class TransformationSection(Section):
    """Converts one resource to amounts of others when quota is counted."""

    input: str = Field(min_length=1)
    strategy: Literal["Retain", "Replace"] = Field("Retain", description="whether the input resource itself counts too")
    multiply_by: str | None = Field(
        None, min_length=1, description="multiply the outputs by the requested units of this resource"
    )
    outputs: dict[str, str | int | float] = Field(default_factory=dict, description="amounts per unit of the input")

    @field_validator("outputs")
    @classmethod
    def _amounts(cls, amounts: dict[str, str | int | float]) -> dict[str, str | int | float]:
        for name, amount in amounts.items():
            try:
                negative = parse(amount) < 0
            except InvalidQuantity as bad:
                raise ValueError(f"{name}: {amount!r}: {bad.allowed}") from None
            if negative:
                raise ValueError(f"{name}: {amount!r}: must not be negative")
        return amounts

    def transformation(self) -> Transformation:
        """Returns the engine's transformation. Outputs are per whole unit of the input; cpu counts in milli-units."""
        each = {name: parse(amount) * _milli(name) / _milli(self.input) for name, amount in self.outputs.items()}
        return Transformation(self.input, each, self.strategy == "Retain", self.multiply_by)


def _milli(resource: str) -> Fraction:
    return Fraction(1000 if resource == CPU else 1)


class ResourcesSection(Section):
    """Which requests count in quota; placement always counts all."""

    exclude_resource_prefixes: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="prefixes of names of resources that do not count in quota"
    )
    transformations: tuple[TransformationSection, ...] = Field(
        (), description="conversions of a resource to amounts of others in quota: input, strategy, multiplyBy, outputs"
    )

    @field_validator("transformations")
    @classmethod
    def _once(cls, transformations: tuple[TransformationSection, ...]) -> tuple[TransformationSection, ...]:
        inputs = [each.input for each in transformations]
        twice = sorted({name for name in inputs if inputs.count(name) > 1})
        if twice:
            raise ValueError(f"only one transformation for each input, there are more for {', '.join(twice)}")
        return transformations

    def rules(self) -> ResourceRules:
        """Returns the engine's rules."""
        return ResourceRules(
            self.exclude_resource_prefixes, tuple(each.transformation() for each in self.transformations)
        )


class IntegrationsSection(Section):
    """Labels and annotations that are copied from jobs and pods."""

    label_keys_to_copy: tuple[str, ...] = Field(
        (), description="labels that are copied from jobs and pods to their Workloads; pods of one group must agree"
    )
    annotation_keys_to_copy: tuple[str, ...] = Field(
        (), description="annotations that are copied from jobs and pods to their Workloads"
    )


class LocalQueueMetricsSection(Section):
    """Metrics of each LocalQueue."""

    enable: bool = Field(True, description="publish the metrics of each LocalQueue")


class MetricsSection(Section):
    """Optional metrics."""

    enable_cluster_queue_resources: bool = Field(
        False, description="publish quotas and usage of each ClusterQueue by flavor and resource"
    )
    local_queue_metrics: LocalQueueMetricsSection = LocalQueueMetricsSection()
    domain_limit: int = Field(
        200,
        ge=0,
        le=10_000,
        description="publish the capacity of each domain of a topology's level that has at most this many; 0: none",
    )


class VisibilityServerSection(Section):
    """Kueue's visibility API, which the controller serves to the API server."""

    enabled: bool = Field(
        False,
        description="serve the pending workloads of queues with their positions; set by the component config/visibility",
    )
    bind_address: Annotated[str, AfterValidator(_ip_address)] = Field(
        "0.0.0.0", description="listen address of the visibility API, an IP address"
    )
    bind_port: int = Field(8082, ge=0, le=65535, description="port of the visibility API; 0 selects a free one")
    service: str = Field(
        "stowage-visibility", description="Service of the visibility API, in the namespace of the process"
    )
    secret: str = Field(
        "stowage-visibility-server-cert", description="Secret that stores the certificate of the visibility API"
    )
    certificate_days: float = Field(
        90, gt=0, description="days of validity; the successor is created when a third is left"
    )
    certificate_period: float = Field(10.0, gt=0, description="seconds between two checks of the certificate")

    @model_validator(mode="after")
    def _needs_the_switch(self) -> Self:
        return _switched(self, "enabled")
