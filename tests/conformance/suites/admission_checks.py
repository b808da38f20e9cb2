"""admission_checks: how Admitted follows from reservation and checks, and when checks ask to be tried again at the latest."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.state import checks, conditions
from api.meta import parse_time
from api.workloads import Workload, WorkloadStatus
from tests.conformance.suites.normal import normal

Json = dict[str, Any]

_PROVISIONING = "ProvisioningRequests: Stowage does not create these, another controller does"
_MULTI_KUEUE = "MultiKueue: Stowage runs in one cluster"
OUTSIDE = {
    "TestConfigHelper": _PROVISIONING,
    "TestIndexerFunc": _PROVISIONING,
    "TestFilterCheckStates": "checks by their controller: Stowage is the controller of none",
    "TestGetMultiKueueAdmissionCheck": _MULTI_KUEUE,
    "TestGetRemoteClusters": _MULTI_KUEUE,
}


def run(case: Json) -> None:
    """By the Go test that the case is of."""
    test = case["name"].split("/")[0]
    if test in OUTSIDE:
        pytest.skip(OUTSIDE[test])
    HANDLERS[test](case)


def _admitted(case: Json) -> None:
    given, want = case["input"], case["want"]
    before = Workload.from_wire(given["workload"])
    after = conditions.synced_admitted(before.status, parse_time(given["now"]) or 0.0, before.metadata.generation)
    assert (after is not before.status) == want["wantChange"]
    assert [_shown(c.to_wire()) for c in after.conditions] == [_shown(c) for c in want["wantConditions"] or []]
    if want["wantAdmittedTime"]:
        assert after.accumulated_past_execution_time_seconds == want["wantAdmittedTime"]


def _shown(condition: Json) -> Any:
    kept = {name: value for name, value in condition.items() if name not in ("lastTransitionTime", "message")}
    return normal(
        {**kept, "observedGeneration": kept.get("observedGeneration") or None, "reason": kept["reason"] or None}
    )


def _latest_retry(case: Json) -> None:
    status = WorkloadStatus.from_wire({"admissionChecks": case["input"].get("checkStates") or []})
    assert checks.latest_retry(status) == parse_time(case["want"]["wantRetryTime"])


HANDLERS = {"TestSyncAdmittedCondition": _admitted, "TestGetMaxRetryTime": _latest_retry}
