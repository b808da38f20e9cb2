"""The checks. A new one is a declaration in a module of this folder, or in a new module that is named here."""

from __future__ import annotations

from typing import Final

from admission.doctor.checks import (
    cohorts,
    controllers,
    crds,
    flavors,
    kinds,
    nodes,
    pods,
    policies,
    processes,
    queue_checks,
    queue_names,
    queues,
    quotas,
    rights,
    settings,
    webhooks,
    workloads,
)
from admission.doctor.finding import Check

ALL: Final[tuple[Check, ...]] = (
    *crds.CHECKS,
    *processes.CHECKS,
    *webhooks.CHECKS,
    *rights.CHECKS,
    *policies.CHECKS,
    *settings.CHECKS,
    *controllers.CHECKS,
    *queues.CHECKS,
    *queue_names.CHECKS,
    *queue_checks.CHECKS,
    *quotas.CHECKS,
    *flavors.CHECKS,
    *nodes.CHECKS,
    *pods.CHECKS,
    *cohorts.CHECKS,
    *workloads.CHECKS,
    *kinds.CHECKS,
)
