"""Kueue's feature gates that Stowage supports, with Kueue's names and, except MultiKueue, Kueue's defaults.

One frozen value, part of the webhook's rules, the cluster view and the job controllers' options. A gate that is a setting of
Stowage (placement.balanced) is not among them; `api/kube/unsupported_keys.py` maps it to that setting.
"""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict, Field

from api.kube.environment import Section

_ABBREVIATIONS: Final = frozenset(("tas", "cq"))


def gate_name(field: str) -> str:
    """Returns Kueue's name of a gate: `tas_validate_workload_slice_size` is `TASValidateWorkloadSliceSize`."""
    return "".join(part.upper() if part in _ABBREVIATIONS else part.capitalize() for part in field.split("_"))


class FeatureGates(Section):
    """Kueue's feature gates."""

    model_config = ConfigDict(alias_generator=gate_name)

    topology_aware_scheduling: bool = Field(
        True,
        description="place pods by the topology of their flavor; off: topologies and the annotations that ask for them have no "
        "effect",
    )
    tas_validate_workload_slice_size: bool = Field(
        True, description="refuse Workloads whose slices are not positive or do not divide their pods"
    )
    elastic_jobs_via_workload_slices: bool = Field(
        True, description="jobs with the annotation elastic-job may change their size while they run"
    )
    admission_gated_by: bool = Field(
        True, description="workloads wait while their annotation admission-gated-by names a gate"
    )
    workload_validate_resources_are_non_negative: bool = Field(
        True, description="refuse Workloads with negative requests or limits"
    )
    priority_boost: bool = Field(
        False,
        description="add the annotation priority-boost of a Workload to its priority, and refuse one that is no number",
    )
    reject_updates_to_cq_with_invalid_on_flavors: bool = Field(
        False,
        description="refuse every change of a ClusterQueue whose checks name flavors that it lacks; off: only changes that add "
        "such a name",
    )
    concurrent_admission: bool = Field(
        False,
        description="validate concurrentAdmissionPolicy of ClusterQueues and keep it from changing; Stowage does not "
        "act on it",
    )
    multi_kueue: bool = Field(
        False,
        description="give new jobs of a queue with a MultiKueue check the managedBy of Kueue's MultiKueue controller, which "
        "another program must run (Kueue's default: true)",
    )


DEFAULT_GATES: Final = FeatureGates()
