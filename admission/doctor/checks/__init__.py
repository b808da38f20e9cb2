"""The checks. A new one is a declaration in a module of this folder, or in a new module that is named here.

processes, settings      Deployments and Leases; settings of the processes
crds, webhooks           CustomResourceDefinitions; webhook configurations
rights, policies         rights of the ServiceAccounts; ValidatingAdmissionPolicies
controllers              other controllers that decide about the same objects
kinds                    kinds of jobs
queues, queue_names      queues lead to flavors; names that refer to nothing
queue_checks, cohorts    AdmissionChecks of queues; cohorts in which a queue gets no quota
flavors, quotas, nodes   flavors select nodes; quota that is there; nodes have the labels of all levels
pods, workloads          pods that nobody admitted; workloads that no controller will end
"""

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
