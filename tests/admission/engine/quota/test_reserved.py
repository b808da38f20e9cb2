"""The quota that advance reservations charge, beside a model that adds everything up anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.decision import Admit, Wait
from admission.engine.features.advance_reservations.reservation import AdvanceReservation
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    ClusterQueue,
    DomainCount,
    Event,
    ObjectRemoved,
    PodSetAdmission,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import RACK, host, queue, racks, workload
from tests.budgets import examples

IN_RACK = TopologyRequest(required=RACK)
RUN = AdvanceReservation("run", {RACK: "r0"}, 1000.0, 2000.0, "q", True, frozenset({"team"}))
CPU = 1000
PAIR = "tas", "cpu"


def on(where: str, pods: int = 1, *, to: str = "q", key: str = "") -> Workload:
    """A workload with so many pods of 1 CPU on the host."""
    one = workload(key or f"team/{where}", pods, 1, to=to, topology=IN_RACK)
    places = Assignment((RACK, HOSTNAME_LABEL), (DomainCount((where[:2], where), pods),))
    return replace(
        one, admission=Admission(to, (PodSetAdmission("main", {"cpu": "tas"}, {"cpu": pods * CPU}, pods, places),))
    )


class Cluster:
    """Racks r0 and r1 of 2 hosts with 4 CPUs each."""

    def __init__(self, *events: Event, quota: int = 16) -> None:
        self.ledger, self.queues = Ledger(), PendingQueues()
        self.state = SchedulerState(self.ledger, self.queues)
        nodes = [host(f"{rack}h{number}", rack, 4) for rack in ("r0", "r1") for number in range(2)]
        self.apply(racks(), queue(tas=quota), *nodes, *events)

    def apply(self, *events: Event) -> None:
        for event in events:
            self.state.apply(event)

    def charge(self, workload: Workload) -> None:
        """Charges the workload's own admission."""
        assert workload.admission is not None
        self.ledger.charge(workload, workload.admission)

    def used(self, name: str = "q") -> int:
        """CPUs that the queue's quota counts."""
        assert self.ledger.audit() == []
        return self.ledger.quota.usage(name).get(PAIR, 0) // CPU

    def decided(self) -> dict[str, str]:
        """Each decided workload: "starts" with its rack, or why it waits."""
        found = {}
        for one in decide(self.ledger, self.queues, 1500.0, 100).decisions:
            if isinstance(one, Admit):
                assignment = one.admission.pod_sets[0].assignment
                assert assignment is not None
                found[one.workload] = "starts in " + assignment.domains[0].values[-1][:2]
            elif isinstance(one, Wait):
                found[one.workload] = one.message
        assert self.ledger.audit() == []
        return found


def user(key: str, pods: int = 2, cpus: int = 4) -> Workload:
    return replace(workload(key, pods, cpus, topology=IN_RACK), reservation="run")


@pytest.mark.parametrize(
    ("events", "cpus"),
    [
        pytest.param([RUN], 8, id="its-nodes"),
        pytest.param([replace(RUN, begun=False)], 0, id="not-begun"),
        pytest.param([replace(RUN, queue="")], 0, id="names-no-queue"),
        pytest.param([replace(RUN, queue="gone")], 0, id="names-an-absent-queue"),
        pytest.param([RUN, replace(RUN, name="same")], 8, id="overlapping-nodes-are-charged-once"),
        pytest.param([RUN, replace(RUN, name="all", labels={"pool": "tas"})], 16, id="overlapping-in-part"),
        pytest.param([RUN, on("r0h0", 3)], 8, id="a-workload-there-draws-on-it"),
        pytest.param([on("r0h0", 3), RUN], 8, id="one-that-was-there-before-too"),
        pytest.param([RUN, on("r1h0", 3)], 11, id="a-workload-elsewhere-does-not"),
        pytest.param([RUN, on("r0h0", 6)], 10, id="more-than-the-host-has"),
        pytest.param(
            [RUN, on("r0h0"), ObjectRemoved(RemovedKind.WORKLOAD, "team/r0h0")], 8, id="charged-again-at-its-end"
        ),
        pytest.param([RUN, ObjectRemoved(RemovedKind.NODE, "r0h0")], 4, id="a-node-leaves"),
        pytest.param([RUN, host("r0h0", "r0", 2)], 6, id="a-node-has-less"),
        pytest.param([RUN, host("r0h0", "r1", 4)], 4, id="a-node-gets-other-labels"),
        pytest.param([RUN, host("r0h9", "r0", 4)], 12, id="a-node-comes"),
        pytest.param([RUN, ObjectRemoved(RemovedKind.NODE_HOLD, "run")], 0, id="removed"),
        pytest.param([RUN, replace(RUN, labels={RACK: "r9"})], 0, id="other-labels"),
        pytest.param([RUN, replace(RUN, queue="other")], 0, id="another-queue"),
        pytest.param([RUN, ObjectRemoved(RemovedKind.FLAVOR, "tas")], 0, id="its-flavor-is-gone"),
        pytest.param([RUN, ObjectRemoved(RemovedKind.FLAVOR, "tas"), racks()], 8, id="its-flavor-comes-back"),
        pytest.param([RUN, replace(racks(), levels=(RACK,))], 0, id="a-topology-that-does-not-end-at-hosts"),
        pytest.param([RUN, ClusterQueue("q")], 0, id="the-queue-covers-nothing"),
        pytest.param([RUN, ClusterQueue("q"), queue(tas=1)], 8, id="more-than-the-quota"),
    ],
)
def test_what_a_queue_is_charged(events: Sequence[Event], cpus: int) -> None:
    assert Cluster(*events).used() == cpus


def test_the_charge_is_given_back_in_a_trial_too() -> None:
    here = Cluster(RUN, on("r0h0", 2), on("r1h0", 1, key="team/x"))
    with here.ledger.trial():
        here.ledger.remove_with_pods("team/r0h0")
        here.charge(on("r0h1", 4))
        assert here.used() == 9
    assert here.used() == 9
    assert here.ledger.reserved.charge_of("run") == {PAIR: 6 * CPU}


def test_a_job_of_the_queue_that_names_the_reservation_is_not_charged_twice() -> None:
    here = Cluster(RUN, user("team/a"), quota=8)
    assert here.decided() == {"team/a": "starts in r0"}
    assert here.used() == 8


def test_others_wait_for_the_quota_and_get_it_at_the_end() -> None:
    here = Cluster(RUN, workload("other/a", 2, 4, topology=IN_RACK), quota=8)
    assert "insufficient unused quota for cpu in flavor tas, 8 more needed" in here.decided()["other/a"]
    here.apply(ObjectRemoved(RemovedKind.NODE_HOLD, "run"))
    assert here.decided() == {"other/a": "starts in r0"}


def test_quota_that_a_node_gives_back_lets_others_start() -> None:
    here = Cluster(RUN, workload("other/a", 1, 4, topology=IN_RACK), quota=8)
    assert "insufficient" in here.decided()["other/a"]
    here.apply(ObjectRemoved(RemovedKind.NODE, "r0h0"))
    assert here.decided() == {"other/a": "starts in r1"}


def test_its_user_stays_on_the_nodes_that_are_charged() -> None:
    """Elsewhere it would use quota that nobody has."""
    here = Cluster(RUN, on("r0h0", 4), quota=16)
    here.apply(user("team/a"))
    assert "excluded: nodeSelector: 2" in here.decided()["team/a"]
    here.apply(ObjectRemoved(RemovedKind.WORKLOAD, "team/r0h0"))
    assert here.decided() == {"team/a": "starts in r0"}


@pytest.mark.parametrize(
    "original",
    [
        pytest.param(replace(user("other/a"), reservation="run"), id="of-another-namespace"),
        pytest.param(replace(user("team/a"), reservation=""), id="names-none"),
        pytest.param(replace(user("team/a"), cluster_queue="other", queue="ns/other"), id="of-another-queue"),
    ],
)
def test_nobody_else_draws_on_it(original: Workload) -> None:
    here = Cluster(RUN, queue("other", tas=0), original, quota=8)
    assert "starts" not in here.decided()[original.key]


def test_a_victim_that_draws_on_it_frees_no_quota_for_others() -> None:
    """Its quota is charged for the reservation again, so nothing is evicted for it."""
    own = queue(tas=8)
    evicting = replace(own, preemption=replace(own.preemption, within_cluster_queue="LowerPriority"))
    here = Cluster(RUN, evicting, on("r0h0", 4), on("r0h1", 4))
    here.apply(workload("other/a", 1, 4, topology=IN_RACK, priority=10))
    assert "insufficient" in here.decided()["other/a"]


HOSTS = ("r0h0", "r0h1", "r1h0")
LABELS = ({RACK: "r0"}, {RACK: "r1"}, {"pool": "tas"}, {RACK: "r9"})
_reservations = st.builds(
    lambda name, labels, to, begun: replace(RUN, name=name, labels=labels, queue=to, begun=begun),
    st.sampled_from("ab"),
    st.sampled_from(LABELS),
    st.sampled_from(["q", "p", "gone", ""]),
    st.booleans(),
)
_events = st.one_of(
    _reservations,
    st.builds(lambda name: ObjectRemoved(RemovedKind.NODE_HOLD, name), st.sampled_from("ab")),
    st.builds(host, st.sampled_from(HOSTS), st.sampled_from(["r0", "r1"]), st.integers(0, 5)),
    st.builds(lambda name: ObjectRemoved(RemovedKind.NODE, name), st.sampled_from(HOSTS)),
    st.builds(
        lambda key, where, pods, to: on(where, pods, to=to, key=f"team/{key}"),
        st.sampled_from("xyz"),
        st.sampled_from(HOSTS),
        st.integers(1, 6),
        st.sampled_from("qp"),
    ),
    st.builds(lambda key: ObjectRemoved(RemovedKind.WORKLOAD, f"team/{key}"), st.sampled_from("xyz")),
    st.builds(lambda name: ObjectRemoved(RemovedKind.CLUSTER_QUEUE, name), st.sampled_from("qp")),
    st.builds(lambda name, cpus: queue(name, tas=cpus, cohort="c"), st.sampled_from("qp"), st.integers(0, 9)),
    st.sampled_from([racks(), replace(racks(), levels=(RACK,)), ObjectRemoved(RemovedKind.FLAVOR, "tas")]),
)


def model(ledger: Ledger) -> dict[str, int]:
    """What each queue is charged for reservations, from the inputs alone."""
    total: Counter[str] = Counter()
    flavor = ledger.flavors.get("tas")
    for name, record in ledger.capacity.nodes.items():
        node = record.node
        if node is None or flavor is None or flavor.levels is None or flavor.levels[-1] != HOSTNAME_LABEL:
            continue
        payers = [one for _, one in sorted(ledger.node_holds.items()) if one.charging and one.holds(node.labels)]
        payers = [one for one in payers if (spec := ledger.quota.spec(one.queue)) is not None and spec.flavors]
        if not payers:
            continue
        used = sum(
            domain.count * CPU
            for admission in ledger.admissions.values()
            if admission.cluster_queue == payers[0].queue
            for got in admission.pod_sets
            for domain in (got.assignment.domains if got.assignment is not None else ())
            if domain.values[-1] == name
        )
        total[payers[0].queue] += max(0, node.allocatable["cpu"] - used)
    return {name: amount for name, amount in total.items() if amount}


@given(st.lists(_events, max_size=30), st.integers(0, 30))
@settings(max_examples=examples(150), deadline=None)
def test_charges_are_those_of_the_model_after_every_event_and_trial(events: list[Event], tried: int) -> None:
    here = Cluster(queue("p", tas=8, cohort="c"))
    for number, event in enumerate(events):
        if number == tried:
            before = here.ledger.quota.state()
            with here.ledger.trial():
                for key in list(here.ledger.admissions):
                    here.ledger.remove_with_pods(key)
                here.charge(on("r0h0", 2))
                with here.ledger.reserved.lifted(["a", "b"]):
                    here.charge(on("r0h1", 2))
            assert here.ledger.quota.state() == before
        here.apply(event)
        charged = {name: here.ledger.reserved.usage(name).get(PAIR, 0) for name in here.ledger.reserved.queues()}
        assert charged == model(here.ledger)
        assert all(amount > 0 for amount in charged.values())
        assert here.ledger.audit() == []
    copy = Ledger()
    for event in here.ledger.inputs():
        copy.apply(event)
    assert {name: copy.reserved.usage(name) for name in copy.reserved.queues()} == {
        name: here.ledger.reserved.usage(name) for name in here.ledger.reserved.queues()
    }
