"""One log line for each decision."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from admission.controllers.report.decision_log import DecisionLog
from admission.engine.decision import Admit, Decision, Evict, Preempt, PreemptionReason, Reject, Victim, Wait
from admission.engine.model import Admission, Assignment, DomainCount, PodSetAdmission
from admission.engine.reasons import Reason
from api.process.logs import facts
from tests.builders import workload


def admission(domains: int) -> Admission:
    places = tuple(DomainCount(("b1", f"r{number}"), 2) for number in range(domains))
    pod_set = PodSetAdmission("main", {"cpu": "gpu"}, {"cpu": 1}, 2 * domains, Assignment(("block", "rack"), places))
    return Admission("research", (pod_set,))


KEY = "ns/wl"


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        pytest.param(
            Admit(KEY, admission(2)),
            {
                "outcome": "Admitted",
                "cluster_queue": "research",
                "flavors": ["gpu"],
                "domains": ["main b1/r0: 2", "main b1/r1: 2"],
            },
            id="admitted",
        ),
        pytest.param(
            Wait(KEY, Reason.WAITING_FOR_QUOTA, "1 more needed"),
            {"outcome": "Waiting", "reason": "WaitingForQuota", "detail": "1 more needed"},
            id="waiting",
        ),
        pytest.param(
            Reject(KEY, Reason.MISCONFIGURED, "never"),
            {"outcome": "Rejected", "reason": "Misconfigured", "detail": "never"},
            id="rejected",
        ),
        pytest.param(
            Preempt(KEY, (Victim("ns/v", PreemptionReason.IN_CLUSTER_QUEUE),), "evicts 1"),
            {"outcome": "Preempting", "reason": "evicts 1", "victims": ["ns/v"], "victim_count": 1},
            id="preempting",
        ),
        pytest.param(
            Evict(KEY, "NodeFailures", "h1 failed"),
            {"outcome": "Evicted", "reason": "NodeFailures", "detail": "h1 failed"},
            id="evicted",
        ),
    ],
)
def test_each_outcome_is_one_line(
    decision: Decision, message: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    DecisionLog({KEY: workload()}).decided(decision, 1.26)
    assert [facts(record) for record in caplog.records] == [
        {"workload": KEY, "queue": "lq", **message, "milliseconds": 1.3}
    ]


def test_a_long_list_of_domains_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    DecisionLog({}).decided(Admit(KEY, admission(1000)), 1.0)
    (record,) = caplog.records
    shown = facts(record)["domains"]
    assert shown[-1] == "and 992 more"
    assert len(shown) == 9


def test_a_wait_is_logged_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = DecisionLog({})
    quota, place = Reason.WAITING_FOR_QUOTA, Reason.TOPOLOGY_PLACEMENT_FAILED
    for reason, message in ((quota, "3 more"), (quota, "2 more"), (place, "no rack"), (quota, "1 more")):
        log.decided(Wait(KEY, reason, message), 1.0)
    assert [facts(record)["detail"] for record in caplog.records] == ["3 more", "no rack", "1 more"]
