"""Kueue's feature gates that Stowage supports, with Kueue's names and, except MultiKueue, Kueue's defaults.

One frozen value, part of the webhook's rules, the cluster view and the job controllers' options. A gate that is a setting of
Stowage (placement.balanced) is not among them; `api/process/unsupported_keys.py` maps it to that setting.
"""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict, Field

from api.process.environment import Section

_ABBREVIATIONS: Final = frozenset(("tas", "cq"))


def gate_name(field: str) -> str:
    """Returns Kueue's name of a gate: `tas_validate_workload_slice_size` is `TASValidateWorkloadSliceSize`."""
    return "".join(part.upper() if part in _ABBREVIATIONS else part.capitalize() for part in field.split("_"))


class FeatureGates(Section):
    """Kueue's feature gates."""

    model_config = ConfigDict(alias_generator=gate_name)

    topology_aware_scheduling: bool = Field(
        True,
        description="place pods by the topology of their flavor; off: topologies and topology annotations have no "
        "effect",
    )
    tas_validate_workload_slice_size: bool = Field(
        True, description="refuse Workloads whose slices are not positive or do not divide their pods"
    )
    elastic_jobs_via_workload_slices: bool = Field(
        True, description="jobs with the annotation elastic-job may change their size while they run"
    )
    admission_gated_by: bool = Field(True, description="workloads with gates in the annotation admission-gated-by wait")
    workload_validate_resources_are_non_negative: bool = Field(
        True, description="refuse Workloads with negative requests or limits"
    )
    priority_boost: bool = Field(
        False,
        description="add the annotation priority-boost of a Workload to its priority; other values than integers are refused",
    )
    reject_updates_to_cq_with_invalid_on_flavors: bool = Field(
        False,
        description="refuse every update of a ClusterQueue whose checks name missing flavors; off: only updates that add "
        "such names",
    )
    concurrent_admission: bool = Field(
        False,
        description="validate concurrentAdmissionPolicy of ClusterQueues and make it immutable; Stowage does not "
        "implement it",
    )
    multi_kueue: bool = Field(
        False,
        description="set managedBy of new jobs in queues with a MultiKueue check to Kueue's MultiKueue controller, which "
        "another program must run (Kueue's default: true)",
    )


DEFAULT_GATES: Final = FeatureGates()
