"""The choice of victims: one preemptor, an assignment of flavors that lacks room, who goes and what is said of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from admission.engine.convert import convert_queues
from admission.engine.convert import convert_workloads as convert
from admission.engine.decision import Victim
from admission.engine.flavors.assign import FlavorAssignment, Mode, Pick, PodSetFlavors
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Counting, FlavorResource, PlacementOptions, Profile, Workload
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.preemption.wording import eviction_message, preempted_event, priorities
from admission.engine.quota.fairness import FairSharingRules, FairStrategy
from api import queues, topology, workloads
from api.meta import parse_time
from tests.conformance.runner import Case, gates, scenarios

MODES = {"Fit": Mode.FIT, "Preempt": Mode.PREEMPT, "NoFit": Mode.NO_FIT}


def run(case: Case) -> None:
    """The same victims by the same rights, in the same order where Kueue shows one, with the same texts."""
    for scenario in scenarios(case):
        _run(scenario)


def _run(case: Case) -> None:
    given, want, observed = case["input"], case["want"], case["observed"]
    ledger = _ledger(given)
    before = ledger.quota.state()
    preemptor = _workload(given["incoming"], given["targetCQ"])
    now = parse_time(given["now"]) or 0.0
    inquiry = Preemptor(ledger, now, _sharing(given, gates(case))).about(preemptor)
    victims = inquiry.targets(preemptor, _assignment(given["assignment"], preemptor))
    assert ledger.quota.state() == before
    chosen = [_shown(victim) for victim in victims]
    targets = [f"{target['workload']}:{target['reason']}" for target in observed["targets"] or ()]
    assert sorted(chosen) == sorted(targets)
    if isinstance(want["wantPreempted"], list | None):
        # only here do all workloads have a UID, which the order of equals depends on
        assert chosen == targets
        assert Counter(chosen) == Counter(want["wantPreempted"] or ())
    else:
        assert len(victims) == want["wantPreempted"]
        assert _conditions(ledger, preemptor, victims) == _wanted_conditions(want["wantWorkloads"])
    if "events" in observed:
        assert _events(ledger, preemptor, victims) == Counter(map(_event, observed["events"]))


def _shown(victim: Victim) -> str:
    """As Kueue shows it: a key has its slash also without a namespace."""
    return f"{_slashed(victim.workload)}:{victim.claim}"


def _slashed(key: str) -> str:
    return key if "/" in key else f"/{key}"


def _ledger(value: Mapping[str, Any]) -> Ledger:
    ledger = Ledger(PlacementOptions(counting=Counting.DOMAINS, profile=Profile.COMPATIBLE))
    for obj in value["resourceFlavors"]:
        ledger.apply(convert_queues.flavor(topology.ResourceFlavor.from_wire(obj), None))
    for obj in value["clusterQueues"]:
        ledger.apply(convert_queues.cluster_queue(queues.ClusterQueue.from_wire(obj)))
    for obj in value.get("cohorts") or ():
        ledger.apply(convert_queues.cohort(queues.Cohort.from_wire(obj)))
    for obj in value["admitted"]:
        ledger.apply(_workload(obj, obj["status"]["admission"]["clusterQueue"]))
    return ledger


def _workload(obj: dict[str, Any], queue: str) -> Workload:
    return convert.workload(workloads.Workload.from_wire(obj), cluster_queue=queue)


def _assignment(value: Mapping[str, Any], workload: Workload) -> FlavorAssignment:
    requests = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    found: list[PodSetFlavors] = []
    usage: dict[FlavorResource, int] = {}
    for index, obj in enumerate(value["podSets"]):
        pod_set = requests.get(obj["name"]) or workload.pod_sets[index]
        picks = {resource: Pick(one["name"], MODES[one["mode"]]) for resource, one in obj["flavors"].items()}
        totals = {resource: pod_set.requests.get(resource, 0) * pod_set.count for resource in picks}
        for resource, pick in picks.items():
            fr = (pick.flavor, resource)
            usage[fr] = usage.get(fr, 0) + totals[resource]
        found.append(PodSetFlavors(pod_set.name, picks, totals))
    return FlavorAssignment(tuple(found), usage)


def _sharing(value: Mapping[str, Any], on: Mapping[str, bool]) -> FairSharingRules | None:
    fair = value.get("fairSharing")
    if fair is None:
        return None
    within_nominal = on["FairSharingPreemptWithinNominal"]
    if not (names := fair.get("preemptionStrategies")):
        return FairSharingRules(within_nominal=within_nominal)
    return FairSharingRules(tuple(map(FairStrategy, names)), within_nominal)


# ---- what is said


def _messages(ledger: Ledger, preemptor: Workload, victims: Sequence[Victim]) -> dict[str, str]:
    queues_of = {victim.workload: _queue_of(ledger, victim.workload) for victim in victims}
    return {v.workload: eviction_message(ledger.quota, preemptor, queues_of[v.workload], v.claim) for v in victims}


def _queue_of(ledger: Ledger, key: str) -> str:
    admission = ledger.admission(key)
    assert admission is not None
    return admission.cluster_queue


def _conditions(ledger: Ledger, preemptor: Workload, victims: Sequence[Victim]) -> dict[str, tuple[str, str]]:
    """Victim to what its condition Preempted says: (reason, message); who is evicted already is not told again."""
    messages = _messages(ledger, preemptor, victims)
    evicted = {
        b.workload.key for queue in ledger.quota.specs() for b in ledger.charged_to(queue.name) if b.workload.evicted
    }
    return {v.workload: (v.claim.value, messages[v.workload]) for v in victims if v.workload not in evicted}


def _wanted_conditions(after: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {
        _key(obj): (condition["reason"], condition["message"])
        for obj in after
        for condition in obj["status"].get("conditions") or ()
        if condition["type"] == "Preempted"
    }


def _key(obj: dict[str, Any]) -> str:
    return workloads.Workload.from_wire(obj).key


def _events(ledger: Ledger, preemptor: Workload, victims: Sequence[Victim]) -> Counter[tuple[str, ...]]:
    booked = {b.workload.key: b for queue in ledger.quota.specs() for b in ledger.charged_to(queue.name)}
    said = _messages(ledger, preemptor, victims)
    events: Counter[tuple[str, ...]] = Counter()
    for victim in victims:
        allocation, message = booked[victim.workload], said[victim.workload]
        queue = allocation.admission.cluster_queue
        events["EvictedDueToPreempted", _slashed(victim.workload), message] += 1
        events["Preempted", _slashed(victim.workload), message + priorities(preemptor, allocation.workload)] += 1
        events[
            "PreemptedWorkload", _slashed(preemptor.key), preempted_event(preemptor, allocation.workload, queue)
        ] += 1
    return events


def _event(event: Mapping[str, str]) -> tuple[str, ...]:
    return event["reason"], event["key"], event["message"]
