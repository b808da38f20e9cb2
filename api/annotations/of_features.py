"""The annotations that features declare for jobs, queues and priority classes, which the rest reads without naming a feature.

An annotation of a feature that is left out is one line less here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.annotations import moves
from api.errors import InvalidObject

Faults = tuple[InvalidObject, ...]
"""The annotations of an object that cannot be read."""

KEYS_OF_JOBS: Final = moves.KEYS_OF_JOBS
"""Those that a Workload takes over from its job whenever they change."""
KEYS_OF_CLASSES: Final = moves.KEYS_OF_CLASSES
"""Those by which LocalQueues and WorkloadPriorityClasses complete those of their Workloads."""


def faults_of_job(annotations: Mapping[str, str]) -> Faults:
    """Returns the faults of a job or Workload."""
    return moves.of_workload(annotations).faults


def faults_of_cluster_queue(annotations: Mapping[str, str]) -> Faults:
    """Returns the faults of a ClusterQueue."""
    return moves.of_queue(annotations).faults


def faults_of_class(annotations: Mapping[str, str]) -> Faults:
    """Returns the faults of a LocalQueue or WorkloadPriorityClass."""
    return moves.of_class(annotations).faults
