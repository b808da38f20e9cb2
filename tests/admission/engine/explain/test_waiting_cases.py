"""Explanations where more than the ledger binds a workload: they say what the cycle says, and what they name is true.

The last table runs over all reason codes: each can be met, and the engine's value, the line for status and event, the command
and its JSON say the same of it.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from admission.cli import explain as command
from admission.engine.decide import decide
from admission.engine.decision import Preempt, Proven, Wait
from admission.engine.explain.changes import (
    AddNodes,
    AnswerCheck,
    DropCheck,
    FewerPods,
    Finish,
    LetEvict,
    LimitTime,
    RaiseQuota,
    Remedy,
)
from admission.engine.explain.cycle_decision import DecisionInputs
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Behind, Explanation, Taken, Verdict
from admission.engine.explain.explanation_json import to_wire
from admission.engine.explain.wording import headline
from admission.engine.model import (
    HOSTNAME_LABEL,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSet,
    PreemptionPolicy,
    TopologyRequest,
    Workload,
)
from admission.engine.reasons import Reason
from admission.engine.scheduler_state import SchedulerState
from admission.world.rules import WorldRules
from admission.world.snapshot import capture
from admission.world.world import WorkloadFacts
from tests.admission.engine.builders import CPU, RACK, Cluster, admitted, host, queue, racks, workload
from tests.admission.engine.dump import dump
from tests.admission.engine.explain import waiting_cases
from tests.admission.engine.explain.applied_remedies import apply, lets_in
from tests.admission.engine.explain.bruteforce import could_run
from tests.admission.engine.explain.situations import IN_A_RACK, W, beside
from tests.admission.engine.explain.waiting_cases import ALL, CLAIMS, Made

Make = Callable[[], Made]
each = pytest.mark.parametrize("make", CLAIMS, ids=lambda make: make.__name__)


def explained(obj: Made) -> Explanation:
    """As the command line asks for it."""
    return explain(obj.cluster.ledger, obj.workload, obj.now, inputs=obj.scene, checks=obj.checks)


@functools.cache
def explanation_of(make: Make) -> Explanation:
    """A value that several tests ask for."""
    return explained(make())


@each
def test_it_says_what_the_cycle_says_and_changes_nothing(make: Make) -> None:
    made = make()
    before, held = dump(made.cluster.ledger), list(made.cluster.queues.starts.all())
    found = explained(made)
    assert dump(made.cluster.ledger) == before
    assert list(made.cluster.queues.starts.all()) == held
    assert explained(make()) == found
    told = [decision for decision in made.cycle().decisions if decision.workload == W]
    for decision in told:
        assert isinstance(decision, Wait | Preempt)
        assert decision.message == found.message
        if isinstance(decision, Wait):
            assert decision.reason == found.reason


@each
def test_every_remedy_carried_out_lets_it_in(make: Make) -> None:
    for remedy in explanation_of(make).remedies:
        assert admits(make(), remedy), remedy


def admits(obj: Made, remedy: Remedy) -> bool:
    """Whether a cycle admits it then, beside all that others claim."""
    workload = obj.workload
    obj.cluster.queues.lines.requeue({one.cluster_queue for one in obj.cluster.queues.workloads()})
    for change in remedy.changes:
        workload = apply(obj.cluster, workload, change)
    return lets_in(obj.cluster, workload, obj.cycle)


TRIED = (
    waiting_cases.borrowing_limit,
    waiting_cases.lent_and_not_reclaimed,
    waiting_cases.lower_priority_stays,
    waiting_cases.fair_share,
    waiting_cases.evicting,
    waiting_cases.pods_not_ready,
    waiting_cases.spread_in_a_required_rack,
    waiting_cases.no_such_flavor,
    waiting_cases.bad_request,
    waiting_cases.affinity,
    waiting_cases.leader,
)


@pytest.mark.parametrize("make", TRIED, ids=lambda make: make.__name__)
def test_what_it_calls_impossible_is_so_however_it_is_tried(make: Make) -> None:
    made = make()
    assert (explained(made).verdict is Verdict.CANNOT_RUN) == (not could_run(made.cluster.ledger, made.workload))


# ---- what each is to say


def test_a_remedy_that_would_evict_instead_is_not_named() -> None:
    """With quota for 4 more pods and a minimum of 2, the cycle evicts the other and starts 3 pods, not 2."""
    pods = PodSet("main", 4, {"cpu": 2 * CPU}, min_count=3, topology=TopologyRequest(preferred=RACK))
    mine = Workload(W, "uid", "ns/q", "q", (pods,), priority=1, queued=9)
    evicting = replace(queue(tas=2), preemption=PreemptionPolicy(within_cluster_queue="LowerPriority"))
    cluster = beside(mine, racks(), *(host(f"h{n}", "r1", 2) for n in range(3)), evicting, workload("ns/u", 1, 2))
    found = explain(cluster.ledger, mine, 0.0)
    assert found.remedies
    for remedy in found.remedies:
        fresh = beside(mine, racks(), *(host(f"h{n}", "r1", 2) for n in range(3)), evicting, workload("ns/u", 1, 2))
        same = mine
        for change in remedy.changes:
            same = apply(fresh, same, change)
        fresh.queues.put(same)
        assert W in admitted(decide(fresh.ledger, fresh.queues, 0.0, 100)), remedy


def test_where_policy_forbids_eviction_the_remedy_names_the_policy() -> None:
    assert (
        Remedy((LetEvict("q", "reclaimWithinCohort", "Any", ("ns/b",)),))
        in explained(waiting_cases.lent_and_not_reclaimed()).remedies
    )
    assert (
        Remedy((LetEvict("q", "withinClusterQueue", "LowerPriority", ("ns/low",)),))
        in explained(waiting_cases.lower_priority_stays()).remedies
    )


def test_a_borrowing_limit_is_reported_as_the_queues_maximum() -> None:
    found = explained(waiting_cases.borrowing_limit())
    assert found.verdict is Verdict.CANNOT_RUN
    [flavor] = found.flavors
    [view] = flavor.quota
    assert (view.asked, view.available, view.most) == (8 * CPU, 6 * CPU, 6 * CPU)
    assert Remedy((RaiseQuota("q", "tas", "cpu", 2 * CPU, 6 * CPU),)) in found.remedies


@pytest.mark.parametrize("make", [waiting_cases.evicting, waiting_cases.promised_already])
def test_a_preemptor_names_the_victims_that_it_waits_for(make: Make) -> None:
    found = explained(make())
    assert (found.verdict, found.reason, found.victims) == (Verdict.WAITS, Reason.WAITING_FOR_PREEMPTED, ("ns/low",))
    assert headline(found).startswith("waits for ns/low to leave, evicted for it; would be admitted if ns/low finished")


@pytest.mark.parametrize("make", [waiting_cases.behind_a_reservation, waiting_cases.too_long_for_the_gap])
def test_a_workload_that_would_delay_a_head_reads_which_and_when_that_starts(make: Make) -> None:
    found = explained(make())
    assert (found.verdict, found.reason) == (Verdict.WAITS, Reason.PENDING_EVALUATION)
    assert found.behind == (Behind("ns/head", 100.0),)
    assert found.remedies == (Remedy((LimitTime(90),)),)
    assert headline(found) == (
        "would delay ns/head, which comes before it and is expected to start at 1970-01-01T00:01:40Z or before; "
        "would be admitted if it ran for 90 s at most"
    )
    assert not admits(make(), Remedy((LimitTime(91),)))
    assert to_wire(found)["behind"] == [{"workload": "ns/head", "start": "1970-01-01T00:01:40Z"}]


def test_the_head_reads_when_it_starts_at_the_latest() -> None:
    found = explained(waiting_cases.head_of_a_backfilled_queue())
    assert (found.reason, found.starts) == (Reason.WAITING_FOR_QUOTA, 100.0)
    assert found.message.endswith("; expected to start at 1970-01-01T00:01:40Z or before")
    assert to_wire(found)["starts"] == "1970-01-01T00:01:40Z"
    assert Remedy((Finish(("ns/runs",)),)) in found.remedies


def test_a_remedy_that_a_reservation_takes_away_is_not_named() -> None:
    """Fewer pods would do on the ledger, but the head in front of it would be delayed by them all the same."""

    def wider() -> Made:
        made = waiting_cases.behind_a_reservation()
        made.cluster.tell(replace(made.workload, pod_sets=(replace(made.workload.pod_sets[0], count=6),)))
        return made

    made = wider()
    alone = explain(made.cluster.ledger, made.workload, made.now)
    fewer = Remedy((FewerPods("main", 6, 4),))
    assert fewer in alone.remedies
    assert not admits(wider(), fewer)
    found = explained(made)
    assert found.reason is Reason.WAITING_FOR_QUOTA
    assert fewer not in found.remedies


def test_pods_that_are_not_ready_hold_back_whatever_else_is_changed() -> None:
    found = explained(waiting_cases.pods_not_ready())
    assert (found.reason, found.remedies) == (Reason.WAITING_FOR_PODS_READY, ())
    assert explained(replace(waiting_cases.pods_not_ready(), startable=1)).verdict is Verdict.FITS


def test_a_gang_reads_which_other_one_keeps_it() -> None:
    missing, crowded = explained(waiting_cases.gang_group()), explained(waiting_cases.gang_group_without_capacity())
    assert headline(missing) == "gang ns/other of the group has too few pods yet"
    assert crowded.message.startswith("gang ns/other of the group: couldn't assign flavors")


QUEUED = (
    waiting_cases.ahead_in_the_queue,
    waiting_cases.ahead_of_another_queue,
    waiting_cases.ahead_for_nodes,
    waiting_cases.behind_a_strict_head,
)


@pytest.mark.parametrize("make", QUEUED, ids=lambda make: make.__name__)
def test_capacity_that_an_earlier_workload_would_take_is_no_remedy(make: Make) -> None:
    """Each remedy holds when all before it have had their turn."""
    found = explained(make())
    assert found.remedies
    for taken in found.taken:
        assert taken.by == ("ns/first",)
        assert not admits(make(), taken.remedy), taken


def test_where_an_earlier_workload_takes_the_capacity_the_remedy_suffices_for_both() -> None:
    first = explained(waiting_cases.ahead_in_the_queue())
    assert Finish(("ns/a", "ns/b")) in first.remedies[0].changes
    assert Taken(Remedy((Finish(("ns/a",)),)), ("ns/first",)) in first.taken
    nodes = explained(waiting_cases.ahead_for_nodes())
    add = {change.count for r in nodes.remedies for change in r.changes if isinstance(change, AddNodes)}
    assert add == {2}
    strict = explained(waiting_cases.behind_a_strict_head())
    assert Remedy((RaiseQuota("q", "tas", "cpu", 6 * CPU, 16 * CPU),)) in strict.remedies
    assert not any(isinstance(change, FewerPods) for r in strict.remedies for change in r.changes)


@pytest.mark.parametrize("names", ["a-new", "z-new"])
def test_added_nodes_suffice_whatever_their_names(names: str) -> None:
    """The earlier workload takes three nodes of five, by name: which ones it leaves depends on the names of the new nodes."""
    hdd = NodeSelectorTerm((NodeSelectorRequirement("disk", "In", ("hdd",)),))

    def scene() -> tuple[Cluster, Workload]:
        nodes = [host("r0-0", "r0", 1), host("r0-1", "r0", 1)]
        nodes = [
            replace(node, labels={**node.labels, "disk": disk})
            for node, disk in zip(nodes, ("ssd", "hdd"), strict=True)
        ]
        late = workload("ns/w", 2, topology=IN_A_RACK, queued=9)
        late = replace(late, pod_sets=(replace(late.pod_sets[0], affinity=(hdd,)),))
        return Cluster(racks(), queue(tas=9), *nodes, workload("ns/first", 3, topology=IN_A_RACK, queued=5), late), late

    cluster, late = scene()
    found = explain(cluster.ledger, late, 0.0, inputs=DecisionInputs(cluster.queues, None))
    counts = [change.count for remedy in found.remedies for change in remedy.changes if isinstance(change, AddNodes)]
    assert counts, found.remedies
    cluster, late = scene()
    like = cluster.ledger.capacity.nodes["r0-1"].node
    assert like is not None
    new = [f"{names}-{index}" for index in range(counts[0])]
    cluster.tell(*(replace(like, name=name, labels={**like.labels, HOSTNAME_LABEL: name}) for name in new))
    assert "ns/w" in admitted(cluster.cycle())


def test_where_nothing_suffices_for_all_the_message_says_which_comes_first() -> None:
    made = waiting_cases.ahead_for_nodes()
    drawn = [workload(f"ns/more-{n}", 4, topology=IN_A_RACK, queued=6) for n in range(200)]
    made.cluster.tell(*drawn)
    made.cycle()
    found = explained(made)
    assert not any(isinstance(change, AddNodes | Finish) for r in found.remedies for change in r.changes)
    assert headline(found).endswith("if ns/a finished, ns/first, ns/more-0 would still come first")


def test_without_a_budget_nothing_is_tried() -> None:
    for make in (waiting_cases.behind_a_reservation, waiting_cases.lower_priority_stays):
        made = make()
        found = explain(made.cluster.ledger, made.workload, made.now, inputs=made.scene, budget=0)
        assert (found.remedies, found.complete) == ((), False)


def test_behind_a_head_without_a_moment_no_start_is_named() -> None:
    """The explanation promises no more than the status."""
    found = explained(waiting_cases.behind_a_head_without_a_moment())
    assert found.starts is None
    assert found.message.endswith("4 more needed")


@pytest.mark.parametrize("make", [waiting_cases.checks_inactive, waiting_cases.checks_inactive_as_the_shell_says])
def test_unanswered_checks_are_named_with_their_controllers(make: Make, tmp_path: Path) -> None:
    made = make()
    found = explained(made)
    prov, licences = "kueue.x-k8s.io/provisioning-request", "example.com/licences"
    assert found.cause.endswith(
        f"; AdmissionCheck prov of controller {prov} is never answered: Stowage does not support that controller"
        f"; AdmissionCheck licences of controller {licences} is inactive (out of service)"
    )
    assert found.remedies == (Remedy((DropCheck("q", "prov", prov), AnswerCheck("q", "licences", licences))),)
    wire, text = command_says(made, tmp_path)
    assert wire["cause"] == found.cause
    assert found.cause in text
    assert f"1. ClusterQueue q did not name AdmissionCheck prov ({prov} is not supported)" in text


def test_the_proof_of_the_placement_is_reported(tmp_path: Path) -> None:
    """Of one that fits and of one that is admitted; of what is open below the asked level, too."""
    text = "proved: one domain of rack holds all, and none that does holds less; of kubernetes.io/hostname and below"
    for runs in (False, True):
        made = waiting_cases.told(workload(W, 4, topology=IN_A_RACK), *waiting_cases.free())
        if runs:
            made.cycle()
        found = explained(made)
        assert found.verdict is (Verdict.ADMITTED if runs else Verdict.FITS)
        [proved] = found.proofs
        assert (proved.pod_set, proved.certificate.claim) == ("main", Proven.ONE_DOMAIN)
        wire, told = command_says(made, tmp_path)
        assert wire["proofs"][0]["certificate"]["text"] == proved.certificate.text
        assert f"domains of main: {text} nothing is proved" in told


# ---- all codes


def command_says(obj: Made, folder: Path) -> tuple[dict[str, Any], str]:
    """The command's JSON and its text, of a snapshot of the situation."""
    state = SchedulerState(obj.cluster.ledger, obj.cluster.queues)
    about = {W: WorkloadFacts("Job ns/w", checks=obj.checks)}
    unready = None if obj.startable is None else {"ns/other"}
    saved = capture(state, obj.now, 64, obj.sharing, about=about, unready=unready)
    (folder / "snapshot.json").write_bytes(saved.encode())
    outs = []
    for as_json in (True, False):
        out = Console(file=io.StringIO(), width=10_000)
        asked = command.ExplainArguments("ns/w", as_json=as_json, snapshot=folder / "snapshot.json")
        assert command.run(asked, WorldRules(), out, Console(file=io.StringIO())) == 0
        assert isinstance(out.file, io.StringIO)
        outs.append(out.file.getvalue())
    return json.loads(outs[0]), outs[1]


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_value_line_command_and_json_say_the_same(make: Make, tmp_path: Path) -> None:
    found = explanation_of(make)
    wire, text = command_says(make(), tmp_path)
    assert {key: wire[key] for key in ("verdict", "reason", "message", "headline")} == {
        "verdict": found.verdict,
        "reason": found.reason,
        "message": found.message,
        "headline": headline(found),
    }
    assert wire["codes"] == list(found.codes)
    assert wire["remedies"] == to_wire(found)["remedies"]
    assert f"{found.verdict} ({', '.join(found.codes)})" in text
    assert found.message in text
    assert headline(found)
    for victim in found.victims:
        assert victim in text


def test_every_code_is_met() -> None:
    met = {code for make in ALL for code in explanation_of(make).codes}
    assert set(Reason) - met == set()
