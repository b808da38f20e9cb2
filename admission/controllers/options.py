"""Converts settings into the controllers' options. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from admission.controllers.jobs.context import JobOptions
from admission.controllers.report.gauges import GaugeOptions
from admission.controllers.state.lifecycle import LifecycleRules
from admission.controllers.state.timeouts import PodsReadyRules, RequeueBackoff
from admission.kueue_settings import PodsReadySection
from admission.settings import AdmissionSettings
from api.names import NAMESPACE_NAME_LABEL
from api.pod.labels import matches
from api.pod.pods import Namespace


def lifecycle_rules(settings: AdmissionSettings) -> LifecycleRules:
    """Returns the lifecycle rules."""
    return LifecycleRules(
        pods_ready=_pods_ready(settings.wait_for_pods_ready),
        finished_kept=settings.object_retention_policies.workloads.after_finished,
        legacy_reasons=settings.controller.legacy_wait_reasons,
    )


def shown(settings: AdmissionSettings) -> GaugeOptions:
    """Returns the gauge options."""
    return GaugeOptions(settings.metrics.local_queue_metrics.enable, settings.metrics.enable_cluster_queue_resources)


def _pods_ready(section: PodsReadySection) -> PodsReadyRules | None:
    if not section.enabled:
        return None
    again = section.requeuing_strategy
    backoff = RequeueBackoff(again.backoff_base_seconds, again.backoff_max_seconds, again.backoff_limit_count)
    return PodsReadyRules(section.timeout, section.recovery_timeout, backoff)


def job_options(settings: AdmissionSettings, namespaces: Mapping[str, Namespace]) -> JobOptions:
    """Returns the options of the job controller; `namespaces` is a live view."""
    selector = settings.managed_namespaces

    def managed(name: str) -> bool:
        namespace = namespaces.get(name)
        labels = {**(namespace.metadata.labels if namespace else {}), NAMESPACE_NAME_LABEL: name}
        return matches(selector, labels)

    return JobOptions(
        topology=settings.feature_gates.topology_aware_scheduling,
        resizes=settings.feature_gates.elastic_jobs_via_workload_slices,
        manage_jobs_without_queue_name=settings.manage_jobs_without_queue_name,
        namespace_managed=managed,
        assign_queue_labels=settings.controller.assign_queue_labels,
        open_templates=settings.controller.open_templates,
        short_names=settings.controller.short_workload_names,
        wait_for_pods_ready=settings.wait_for_pods_ready.enabled,
        reclaimable_pods=settings.controller.reclaimable_pods,
        deactivated_kept=settings.object_retention_policies.workloads.after_deactivated_by_kueue,
        label_keys_to_copy=settings.integrations.label_keys_to_copy,
        annotation_keys_to_copy=settings.integrations.annotation_keys_to_copy,
        finish_orphaned=settings.controller.finish_orphaned_workloads,
    )
