"""What is handed back to a group: status and message, places, times, labels; and that an attempt is counted once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from admission.controllers.sakkara.output import PATIENCE, GroupResult, result
from admission.controllers.sakkara.output_members import MemberPod
from admission.controllers.sakkara.output_record import ResultInput, ResultRecord
from admission.integrations.pods.pod import PodMeta
from api.meta import parse_time
from api.names import SAKKARA_RANK, SAKKARA_RETRIES, SAKKARA_STATUS
from api.workloads import Workload

CREATED = "2026-01-01T00:00:00Z"
T0 = parse_time(CREATED) or 0.0
NODES = {"n0": ("r0", "n0"), "n1": ("r0", "n1"), "n2": ("r1", "n2")}


def pod(name: str, node: str = "", **fields: Any) -> MemberPod:
    """Gated unless it is somewhere."""
    defaults: dict[str, Any] = {"gated": not node, "phase": "Running" if node else "Pending"}
    return MemberPod(PodMeta(name, "ns", f"uid-{name}", "1"), "g", node, **{**defaults, **fields})


def sent(name: str, node: str) -> MemberPod:
    """Let through to a node, and not bound yet."""
    return pod(name, selector={"kubernetes.io/hostname": node}, gated=False)


def path_of(member: MemberPod) -> tuple[str, ...]:
    node = member.node or ("" if member.gated else member.selector.get("kubernetes.io/hostname", ""))
    return NODES.get(node, ())


def condition(kind: str, status: bool = True, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": str(status),
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": CREATED,
    }


def workload(
    *conditions: Mapping[str, Any],
    admitted: int = 0,
    evictions: int = 0,
    uid: str = "w1",
    active: bool = True,
    checks: Sequence[Mapping[str, Any]] = (),
) -> Workload:
    status: dict[str, Any] = {"conditions": list(conditions), "admissionChecks": list(checks)}
    if admitted:
        assignment = {"name": "main", "count": admitted, "flavors": {"cpu": "f"}}
        status["admission"] = {"clusterQueue": "q", "podSetAssignments": [assignment]}
    if evictions:
        status["schedulingStats"] = {"evictions": [{"reason": "Preempted", "count": evictions}]}
    meta = {"name": "g", "namespace": "ns", "uid": uid, "creationTimestamp": CREATED}
    return Workload.from_wire({"metadata": meta, "spec": {"active": active, "podSets": []}, "status": status})


def admitted(count: int, evictions: int = 0, uid: str = "w1") -> Workload:
    return workload(condition("QuotaReserved"), condition("Admitted"), admitted=count, evictions=evictions, uid=uid)


WAITS = workload(condition("QuotaReserved", False, "WaitingForQuota", "too little"))
PREEMPTED = workload(
    condition("QuotaReserved", False, "PendingEvaluation", "for a better one"),
    condition("Evicted", True, "Preempted", "for a better one"),
    condition("Preempted", True, "InClusterQueue", "Preempted to accommodate x"),
    evictions=1,
)


@dataclass
class OutputGroup:
    """A ConfigMap that is told, again and again. A crash changes nothing: all that is known stands in it."""

    data: dict[str, str] = field(default_factory=lambda: {"name": "g", "size": "2"})
    record: str | None = None
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    now: float = T0 + 5

    def told(self, of: Workload | None, *pods: MemberPod, **more: Any) -> GroupResult:
        labelled = [replace(p, given=dict(self.labels.get(p.name, {}))) for p in pods]
        given = ResultInput(
            data=self.data,
            record=ResultRecord.read(self.record),
            workload=of,
            pods=labelled,
            path_of=path_of,
            **{"now": self.now, "wanted": 2, **more},
        )
        found = result(given)
        again = result(replace(given, data={**self._kept(), **found.data}, record=found.record, solver=None))
        assert (again.data, again.record, again.labels) == (found.data, found.record, found.labels), "said twice"
        self.data, self.record = {**self._kept(), **found.data}, found.record.text()
        self.labels = {**self.labels, **found.labels}
        return found

    def _kept(self) -> dict[str, str]:
        return {key: value for key, value in self.data.items() if key in ("name", "size")}

    @property
    def ranks(self) -> dict[str, int]:
        return dict(json.loads(self.data.get("rank", "[]")))

    @property
    def placement(self) -> Any:
        return json.loads(self.data["placement"])["root"] if "placement" in self.data else None


GATED = (pod("a"), pod("b"))
SENT = (sent("a", "n0"), sent("b", "n1"))
BOUND = (pod("a", "n0"), pod("b", "n1"))


@pytest.mark.parametrize(
    ("of", "pods", "status", "message"),
    [
        pytest.param(None, (), "Pending", "0 of 2 pods exist", id="no pods"),
        pytest.param(None, (pod("a"),), "Pending", "1 of 2 pods exist", id="too few pods"),
        pytest.param(workload(), GATED, "Pending", "about to be considered", id="queued"),
        pytest.param(WAITS, GATED, "Pending", "too little", id="waits"),
        pytest.param(
            workload(condition("WaitingForReplacementPods", True, "GangWaiting", "1 of 2 pods exist")),
            GATED,
            "Pending",
            "1 of 2 pods exist",
            id="has lost a pod while it waits",
        ),
        pytest.param(admitted(2), GATED, "Assigned", "", id="gates are still closed"),
        pytest.param(admitted(2), SENT, "Assigned", "", id="let through"),
        pytest.param(admitted(2), (BOUND[0], SENT[1]), "Assigned", "", id="one is bound"),
        pytest.param(
            workload(
                condition("QuotaReserved"), admitted=2, checks=[{"name": "budget", "state": "Pending", "message": ""}]
            ),
            GATED,
            "Assigned",
            "waits for admission checks: budget",
            id="places kept until a check is ready",
        ),
        pytest.param(admitted(2), BOUND, "Bound", "", id="all are bound"),
        pytest.param(admitted(2), (BOUND[0], pod("b", "n1", phase="Succeeded")), "Bound", "", id="one is done"),
        pytest.param(
            admitted(2),
            (BOUND[0], pod("b", "n1", phase="Failed")),
            "Failed",
            "1 of 2 pods are missing; failed: b",
            id="one has failed",
        ),
        pytest.param(
            admitted(2), (*BOUND, pod("c", "n1", phase="Failed")), "Bound", "", id="who failed has a successor"
        ),
        pytest.param(
            workload(condition("Finished", True, "Succeeded", "Pods succeeded: 2/2."), admitted=2),
            BOUND,
            "Bound",
            "Pods succeeded: 2/2.",
            id="ended well",
        ),
        pytest.param(
            workload(condition("Finished", True, "Failed", "Pods failed: 1/2."), admitted=2),
            BOUND,
            "Failed",
            "Pods failed: 1/2.",
            id="ended badly",
        ),
        pytest.param(PREEMPTED, GATED, "Preempted", "Preempted to accommodate x", id="preempted"),
        pytest.param(
            workload(
                condition("QuotaReserved", False, "WaitingForQuota", "too little"),
                *(c.to_wire() for c in PREEMPTED.status.conditions[1:]),
            ),
            GATED,
            "Preempted",
            "Preempted to accommodate x; too little",
            id="preempted, and waits again",
        ),
        pytest.param(
            workload(
                *(c.to_wire() for c in PREEMPTED.status.conditions),
                condition("Finished", True, "Failed", "Pods failed: 2/2."),
            ),
            (),
            "Preempted",
            "Preempted to accommodate x",
            id="preempted, and its pods are gone for good",
        ),
        pytest.param(
            workload(condition("Evicted", True, "GangTimeout", "1 of 2 pods were bound within 10s")),
            GATED,
            "Pending",
            "1 of 2 pods were bound within 10s",
            id="sent back",
        ),
        pytest.param(
            workload(condition("Evicted", True, "Deactivated", "stopped by hand"), active=False),
            GATED,
            "Pending",
            "stopped by hand",
            id="a user has stopped it",
        ),
        pytest.param(
            workload(
                condition("Evicted", True, "DeactivatedDueToRequeuingLimitExceeded", "tried 5 times"), active=False
            ),
            GATED,
            "Failed",
            "tried 5 times",
            id="given up",
        ),
    ],
)
def test_status(of: Workload | None, pods: tuple[MemberPod, ...], status: str, message: str) -> None:
    data = OutputGroup().told(of, *pods).data
    assert (data["status"], data.get("message", "")) == (status, message)


def test_a_group_that_cannot_be_read_has_failed_until_it_can() -> None:
    group = OutputGroup()
    fault = "data.size: 'x': must be a whole number from 1 to 2147483647"
    assert group.told(None, *GATED, wanted=0, fault=fault).data["message"] == fault
    assert group.data["status"] == "Failed"
    assert group.told(WAITS, *GATED).data["status"] == "Pending"


def test_a_running_group_does_not_fail_for_its_description() -> None:
    assert OutputGroup().told(admitted(2), *BOUND, wanted=0, fault="bad").data["status"] == "Bound"


# ---- places


def test_the_placement_grows_with_the_pods_that_are_let_through() -> None:
    group = OutputGroup()
    group.told(WAITS, *GATED)
    assert group.placement is None
    group.told(admitted(2), *GATED)
    assert group.placement is None
    group.told(admitted(2), SENT[0], GATED[1])
    assert group.placement == {"r0": {"n0": ["a"]}}
    assert not group.ranks
    group.told(admitted(2), *SENT)
    assert group.placement == {"r0": {"n0": ["a"], "n1": ["b"]}}
    assert group.ranks == {"a": 0, "b": 1}


def test_where_a_pod_is_bound_goes_before_where_it_was_sent() -> None:
    group = OutputGroup()
    group.told(admitted(2), *SENT)
    group.told(admitted(2), SENT[0], pod("b", "n2"))
    assert (group.placement, group.ranks) == ({"r0": {"n0": ["a"]}, "r1": {"n2": ["b"]}}, {"a": 0, "b": 1})


def test_a_place_stays_when_nothing_is_known_of_its_node_any_more() -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND)
    group.told(admitted(2), BOUND[0], pod("b", "gone"))
    assert group.placement == {"r0": {"n0": ["a"], "n1": ["b"]}}


def test_a_pod_on_a_node_of_which_nothing_is_known_yet_is_looked_at_again() -> None:
    told = OutputGroup().told(admitted(2), BOUND[0], pod("b", "new"))
    assert "rank" not in told.data
    assert told.again_in is not None


def test_a_successor_has_the_place_and_the_rank_and_says_that_it_is_the_second() -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND)
    group.told(admitted(2), BOUND[0], pod("b", "n1", phase="Failed"))
    assert (group.placement, group.ranks) == ({"r0": {"n0": ["a"], "n1": ["b"]}}, {"a": 0, "b": 1})
    group.told(admitted(2), BOUND[0])
    group.told(admitted(2), BOUND[0], pod("new"))
    assert group.ranks == {"a": 0, "b": 1}
    group.told(admitted(2), BOUND[0], pod("new", "n1"))
    assert (group.placement, group.ranks) == ({"r0": {"n0": ["a"], "n1": ["new"]}}, {"a": 0, "new": 1})
    assert group.labels["new"] == {SAKKARA_RANK: "1", SAKKARA_RETRIES: "1", SAKKARA_STATUS: "Bound"}
    assert group.labels["a"][SAKKARA_RETRIES] == "0"


def test_a_pod_that_goes_keeps_its_place_until_its_successor_is_placed() -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND)
    group.told(admitted(2), BOUND[0], replace(BOUND[1], deleted=True), sent("new", "n1"))
    assert group.ranks == {"a": 0, "new": 1}
    assert group.data["status"] == "Assigned"


def test_what_the_config_map_has_lost_the_pods_still_say() -> None:
    group = OutputGroup()
    group.told(admitted(2), pod("a", "n2"), pod("b", "n0"))
    assert group.ranks == {"a": 0, "b": 1}
    group.told(admitted(2), pod("a", "n2"), pod("b", "n0", phase="Failed"))
    group.told(admitted(2), pod("a", "n2"), pod("A", "n0"))
    assert group.ranks == {"a": 0, "A": 1}, "made anew, A would be the master"
    group.data, group.record = {"name": "g", "size": "2"}, None
    told = group.told(admitted(2), pod("a", "n2"), pod("A", "n0"))
    assert group.ranks == {"a": 0, "A": 1}
    assert told.labels["A"][SAKKARA_RETRIES] == "1"


# ---- attempts


def test_an_eviction_frees_the_places_and_the_next_attempt_restarts() -> None:
    group = OutputGroup()
    group.told(admitted(2), pod("a", "n1"), pod("b", "n0"))
    group.told(PREEMPTED, *(replace(p, deleted=True) for p in BOUND))
    assert (group.placement, group.ranks, group.data["status"]) == (None, {}, "Preempted")
    assert "schedEndTime" not in group.data
    group.told(PREEMPTED, pod("c"), pod("d"))
    group.told(admitted(2, evictions=1), pod("c", "n2"), pod("d", "n2"))
    assert group.ranks == {"c": 0, "d": 1}
    assert group.labels["c"][SAKKARA_RETRIES] == "1"
    assert group.data["status"] == "Bound"
    assert group.data["schedBeginTime"] == "2026-01-01T00:00:00.000Z"


def test_an_attempt_that_ended_during_an_outage_is_counted() -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND)
    group.told(admitted(2, evictions=2), pod("c", "n2"), pod("d", "n0"))
    assert group.ranks == {"c": 0, "d": 1}
    assert group.labels["d"][SAKKARA_RETRIES] == "2"


@pytest.mark.parametrize("looked", [True, False], ids=["the eviction was seen", "the eviction was not seen"])
def test_pods_that_went_with_their_workload_come_back_as_the_next_attempt(looked: bool) -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND)
    if looked:
        group.told(PREEMPTED, *(replace(p, deleted=True) for p in BOUND))
        finish = condition("Finished", True, "Failed", "Pods failed: 2/2.")
        group.told(workload(*(c.to_wire() for c in PREEMPTED.status.conditions), finish, evictions=1))
        assert group.data["status"] == "Preempted"
        group.told(None)
        assert group.data["status"] == "Preempted"
    group.told(replace_uid(WAITS, "w2"), *GATED)
    assert group.data["status"] == ("Preempted" if looked else "Pending")
    assert group.ranks == {}
    group.told(admitted(2, uid="w2"), *BOUND)
    assert group.data["status"] == "Bound"
    assert group.labels["a"][SAKKARA_RETRIES] == "1"


@pytest.mark.parametrize("looks", [1, 3])
def test_an_attempt_whose_workload_was_deleted_is_counted_once(looks: int) -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND)
    for _ in range(looks):
        group.told(None, GATED[0])
        assert group.data["status"] == "Pending"
    group.told(admitted(2, uid="w2"), *BOUND)
    assert group.labels["a"][SAKKARA_RETRIES] == "1"


def replace_uid(of: Workload, uid: str) -> Workload:
    return of.model_copy(update={"metadata": of.metadata.model_copy(update={"uid": uid})})


def test_results_of_a_group_that_has_ended_stay_until_it_comes_again() -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND, solver=4.0)
    over = workload(
        condition("QuotaReserved"),
        condition("Admitted"),
        condition("Finished", True, "Succeeded", "Pods succeeded: 2/2."),
        admitted=2,
    )
    done = [replace(p, phase="Succeeded") for p in BOUND]
    group.told(over, *done)
    for pods in (done[:1], []):
        for of in (over, None):
            group.told(of, *pods)
            assert group.data["status"] == "Bound"
            assert group.data["message"] == "Pods succeeded: 2/2."
            assert (group.placement, group.ranks) == ({"r0": {"n0": ["a"], "n1": ["b"]}}, {"a": 0, "b": 1})
            assert group.data["schedSolverTimeMilli"] == "4"
    group.now += 100
    group.told(None, *GATED)
    assert (group.data["status"], group.placement) == ("Pending", None)
    group.told(admitted(2, uid="w2"), *BOUND, solver=1.0)
    assert group.labels["a"][SAKKARA_RETRIES] == "0"
    assert group.data["schedSolverTimeMilli"] == "1"


@pytest.mark.parametrize("spoilt", ["{", "3", '{"taken": 3}', '{"taken": {"x": 1}}', '{"evictions": "x"}', "null"])
def test_an_unreadable_record_counts_as_none(spoilt: str) -> None:
    assert ResultRecord.read(spoilt) == ResultRecord()


@pytest.mark.parametrize(
    "record", [ResultRecord(), ResultRecord("w", 2, 1, True, {3: 1}), ResultRecord("w", taken={0: 2, 5: 1})]
)
def test_a_record_is_read_as_it_was_written(record: ResultRecord) -> None:
    assert ResultRecord.read(record.text()) == record


# ---- times


def test_times_from_the_first_wait_to_the_last_bound_pod() -> None:
    group = OutputGroup(now=T0 + 0.7)
    group.told(WAITS, *GATED, seen=T0 + 0.25, solver=1.6)
    assert group.data["schedBeginTime"] == "2026-01-01T00:00:00.250Z"
    assert "schedTotalTimeMilli" not in group.data
    group.now = T0 + 61
    group.told(admitted(2), *SENT, solver=2.2)
    bound = [replace(p, scheduled=T0 + 62) for p in BOUND]
    group.now = T0 + 63
    group.told(admitted(2), *bound, bound=T0 + 62.5)
    assert group.data["schedEndTime"] == "2026-01-01T00:01:02.500Z"
    assert group.data["schedTotalTimeMilli"] == "62250"
    assert group.data["schedSolverTimeMilli"] == "4"


@pytest.mark.parametrize("begin", [0.0004, 0.0005, 0.9996, 0.1234567])
@pytest.mark.parametrize("end", [2.0004, 2.0005, 2.9996, 2.7654321])
def test_the_total_is_the_difference_of_the_two_times_written(begin: float, end: float) -> None:
    group = OutputGroup(now=T0 + end)
    group.told(admitted(2), *BOUND, seen=T0 + begin)
    first, last = (parse_time(group.data[key]) or 0.0 for key in ("schedBeginTime", "schedEndTime"))
    assert int(group.data["schedTotalTimeMilli"]) == round((last - first) * 1000)


def test_a_later_process_tells_the_times_of_the_api_server() -> None:
    group = OutputGroup(now=T0 + 3600)
    bound = [replace(p, scheduled=T0 + 62) for p in BOUND]
    group.told(admitted(2), *bound, seen=T0 + 3000, bound=T0 + 3000)
    assert group.data["schedBeginTime"] == "2026-01-01T00:00:00.000Z"
    assert group.data["schedEndTime"] == "2026-01-01T00:01:02.000Z"
    assert group.data["schedTotalTimeMilli"] == "62000"


def test_the_end_does_not_move_when_a_member_is_replaced_and_the_time_goes_on_through_retries() -> None:
    group = OutputGroup(now=T0 + 10)
    group.told(admitted(2), *BOUND)
    assert group.data["schedTotalTimeMilli"] == "10000"
    group.now = T0 + 50
    group.told(admitted(2), BOUND[0], sent("c", "n1"))
    group.told(admitted(2), BOUND[0], pod("c", "n1"))
    assert group.data["schedTotalTimeMilli"] == "10000"
    group.told(PREEMPTED)
    assert "schedTotalTimeMilli" not in group.data
    group.now = T0 + 90
    group.told(admitted(2, evictions=1), pod("d", "n0"), pod("e", "n0"))
    assert group.data["schedTotalTimeMilli"] == "90000"


# ---- labels


def test_pods_that_are_bound_soon_are_labelled_once_and_others_after_a_while() -> None:
    group = OutputGroup(now=T0 + 1)
    told = group.told(admitted(2), BOUND[0], SENT[1])
    assert told.labels == {"a": {SAKKARA_RANK: "0", SAKKARA_RETRIES: "0", SAKKARA_STATUS: "Bound"}}
    assert told.again_in == PATIENCE - 1
    group.now = T0 + PATIENCE
    told = group.told(admitted(2), BOUND[0], SENT[1])
    assert told.labels["b"] == {SAKKARA_RANK: "1", SAKKARA_RETRIES: "0", SAKKARA_STATUS: "Assigned"}


def test_a_pod_whose_gate_waits_for_its_rank_is_labelled_at_once() -> None:
    group = OutputGroup(now=T0 + 1)
    told = group.told(admitted(2), *(replace(sent, awaits_rank=True) for sent in SENT))
    assert {name: labels[SAKKARA_RANK] for name, labels in told.labels.items()} == {"a": "0", "b": "1"}


def test_a_failed_member_says_so_and_one_that_goes_is_left_alone() -> None:
    group = OutputGroup()
    group.told(admitted(2), *BOUND)
    told = group.told(admitted(2), replace(BOUND[0], phase="Failed"), replace(BOUND[1], deleted=True))
    assert told.labels == {"a": {SAKKARA_RANK: "0", SAKKARA_RETRIES: "0", SAKKARA_STATUS: "Failed"}}
