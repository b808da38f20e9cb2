"""Cases that do not pass yet, each with what is missing. The change that builds the rule takes its cases out."""

from __future__ import annotations

from typing import Final

_TAS: Final = "scheduler_tas:TestScheduleForTAS"

PENDING: Final = {
    "scheduler_quota:TestScheduleForFairSharing/multiple preemptions within cq when fair sharing": "to be looked at",
    f"{_TAS}/second pass replacement must not take a domain claimed by another workload in the same cycle": (
        "two replacements in one cycle"
    ),
    f"{_TAS}/workload in CQ with two TAS flavors, only the second is using Provisioning Admission Check": (
        "ProvisioningRequest"
    ),
    f"{_TAS}/workload with unhealthyNode annotation; second pass; preferred; no fit; FailFast (test error on patch)": (
        "an eviction whose write fails"
    ),
    f"{_TAS}Cohorts/reclaim within cohort; preempting with partial admission": "to be looked at",
    "topology_ungater:TestReconcile/workload admitted but without topology assignment - pod remains gated": (
        "to be looked at"
    ),
}
"""By id."""
