"""What is due for plain pods, beyond Kueue's table: starts to the letter, large groups, what must not happen."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.pods.actions import AdoptWorkload, DeletePod, PodGroupPlan, ReleasePod, StartPod, StopPod
from admission.controllers.pods.compose import MAX_OWNERS, adopt
from admission.controllers.pods.pod_plan import plan
from admission.controllers.pods.workload_updates import with_reason
from admission.controllers.state import conditions
from admission.controllers.state.actions import CreateWorkload, PatchWorkload, PlannedEvent, SetStatus
from admission.integrations.pods.podgroup import PodUnit
from api import names
from api.assignment import encode
from api.meta import ObjectMeta, OwnerReference, find_condition, is_true
from api.queues import WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.workloads import Admission, PodSet, PodSetAssignment, Workload, WorkloadSpec
from tests.admission.integrations.pods import read, unit, wire

NOW = 1_767_225_700.0
FLAVOR = ResourceFlavor.from_wire(
    {
        "metadata": {"name": "f"},
        "spec": {"nodeLabels": {"pool": "a"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
    }
)
AROUND = JobContext(flavors={"f": FLAVOR})


def created(of: PodUnit) -> Workload:
    (action,) = plan(of, [], AROUND, NOW).actions
    assert isinstance(action, CreateWorkload)
    return action.workload


def deleted(workload: Workload) -> Workload:
    metadata = workload.metadata.model_copy(update={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    return workload.model_copy(update={"metadata": metadata})


RANKS = {"high": 9, "low": 1}
LEVELS = ("rack", names.HOSTNAME_LABEL)


def admitted(workload: Workload, *places: tuple[str, ...]) -> Workload:
    """As the scheduler would leave it; with one pod in each of these places."""
    more: dict[str, Any] = {}
    if places:
        more["topology_assignment"] = encode(LEVELS[: len(places[0])], [(place, 1) for place in places])
    sets = tuple(
        PodSetAssignment(name=p.name, count=p.count, flavors={"cpu": "f"}, **more) for p in workload.spec.pod_sets
    )
    admission = Admission(cluster_queue="cq", pod_set_assignments=sets)
    status = conditions.synced_admitted(conditions.reserved(workload.status, admission, NOW), NOW)
    return workload.model_copy(update={"status": status})


def gates_left(action: StartPod) -> set[str]:
    gone = {gate["name"] for gate in action.patch["spec"]["schedulingGates"]}
    return {names.ADMISSION_GATE, names.TOPOLOGY_GATE} - gone


@pytest.mark.parametrize(
    ("places", "left", "selector"),
    [
        pytest.param([], set(), {"pool": "a"}, id="no place of its own: both gates go"),
        pytest.param(
            [("r1", "h1"), ("r1", "h2")], {names.TOPOLOGY_GATE}, {"pool": "a"}, id="hosts: the ungater opens the rest"
        ),
        pytest.param(
            [("r1", "h1")], set(), {"pool": "a", "rack": "r1", names.HOSTNAME_LABEL: "h1"}, id="one host: open at once"
        ),
        pytest.param([("r1",)], set(), {"pool": "a", "rack": "r1"}, id="one rack for all: open at once"),
    ],
)
def test_a_start_opens_gates_and_adds_what_the_admission_gives(
    places: list[tuple[str, ...]], left: set[str], selector: dict[str, str]
) -> None:
    of = unit(wire("p"))
    (start,) = plan(of, [admitted(created(of), *places)], AROUND, NOW).actions
    assert isinstance(start, StartPod)
    assert gates_left(start) == left
    assert start.patch["spec"]["nodeSelector"] == selector
    assert start.patch["spec"]["tolerations"] == [{"key": "t", "operator": "Exists"}]
    assert start.patch["metadata"]["uid"] == "uid-p"
    assert (start.cluster_queue, start.since) == ("cq", NOW)  # for the metric of gates
    assert start.patch["metadata"]["labels"][names.PODSET_LABEL] == "main"
    assert start.patch["metadata"]["annotations"][names.WORKLOAD_ANNOTATION].startswith("pod-p-")


@pytest.mark.parametrize("group", [None, "g"], ids=["a pod", "a pod group"])
@pytest.mark.parametrize("runs", [False, True], ids=["waits", "runs"])
def test_pods_go_by_the_workload_priority_class_that_they_name(group: str | None, runs: bool) -> None:
    """Pods of a Deployment too, to which the webhook passes its label on. A change is followed while they run."""
    known = {
        name: WorkloadPriorityClass.from_wire({"metadata": {"name": name}, "value": v}) for name, v in RANKS.items()
    }
    around = replace(AROUND, workload_priority_classes=known)
    total: dict[str, Any] = {} if group is None else {"group": group, "total": 1}

    def of(priority: str, **more: Any) -> PodUnit:
        return unit(wire("p", labels={names.PRIORITY_CLASS_LABEL: priority}, **total, **more))

    (made,) = plan(of("high"), [], around, NOW).actions
    assert isinstance(made, CreateWorkload)
    assert made.workload.spec.priority == RANKS["high"]
    workload = admitted(made.workload) if runs else made.workload
    now: dict[str, Any] = {"gated": False, "phase": "Running", "node": "n"} if runs else {}
    (patch,) = plan(of("low", **now), [workload], around, NOW).actions
    assert isinstance(patch, PatchWorkload)
    assert patch.patch["spec"]["priority"] == RANKS["low"]
    assert patch.patch["spec"]["priorityClassRef"]["name"] == "low"
    missing = plan(of("later", **now), [workload], around, NOW)
    assert (missing.actions, [event.reason for event in missing.events]) == ((), ["WorkloadPriorityClassNotFound"])


def test_what_contradicts_the_pod_ends_the_workload() -> None:
    of = unit(wire("p", nodeSelector={"pool": "b"}))
    (end,) = plan(of, [admitted(created(of))], AROUND, NOW).actions
    assert isinstance(end, SetStatus)
    finished = next(c for c in end.status.conditions if c.type == names.FINISHED)
    assert finished.reason == names.FinishedReason.FAILED_TO_START


def test_pods_start_while_others_of_their_group_run() -> None:
    pods = [wire(f"p{i}", group="g", total=2) for i in range(2)]
    workload = admitted(created(unit(*pods)))
    pods[0] = wire("p0", group="g", total=2, gated=False, phase="Running", node="n")
    (start,) = plan(unit(*pods), [workload], AROUND, NOW).actions
    assert isinstance(start, StartPod)
    assert start.pod.metadata.name == "p1"


def test_a_group_that_waits_lets_go_of_pods_that_were_deleted() -> None:
    pods = [wire(f"p{i}", group="g", total=2) for i in range(2)]
    workload = created(unit(*pods))
    pods[1] = wire("p1", group="g", total=2, deleted=True)
    made = plan(unit(*pods), [workload], AROUND, NOW)
    assert [action.pod.metadata.name for action in made.actions if isinstance(action, ReleasePod)] == ["p1"]
    status = next(action.status for action in made.actions if isinstance(action, SetStatus))
    assert is_true(status.conditions, names.WAITING_FOR_REPLACEMENT_PODS)


@pytest.mark.parametrize("gone", [False, True], ids=["its owners are going", "its owners have gone"])
def test_pods_that_came_in_the_place_of_all_others_do_not_end_with_the_collected_workload(gone: bool) -> None:
    workload = deleted(created(unit(*(wire(f"old-{i}", group="g", total=2) for i in range(2)))))
    going = [] if gone else [wire(f"old-{i}", group="g", total=2, deleted=True) for i in range(2)]
    new = [wire(f"new-{i}", group="g", total=2) for i in range(2)]
    made = plan(unit(*going, *new), [workload], AROUND, NOW)
    assert isinstance(made.actions[-1], PatchWorkload), "it is let go"
    released = [each.pod.metadata.name for each in made.actions if isinstance(each, ReleasePod)]
    assert released == [pod["metadata"]["name"] for pod in going]
    assert len(made.actions) == len(going) + 1


def test_a_deleted_workload_takes_all_its_pods_with_it_its_owners_last() -> None:
    workload = deleted(created(unit(wire("b", group="g", total=1))))
    made = plan(unit(*(wire(name, group="g", total=3) for name in "abc")), [workload], AROUND, NOW)
    stopped = [each.pod.metadata.name for each in made.actions if isinstance(each, StopPod)]
    assert stopped == ["a", "c", "b"]
    assert len(made.actions) == len(stopped)


def test_pods_that_are_all_being_deleted_keep_no_workload_of_other_roles_and_go_when_they_have_ended() -> None:
    """As in Kueue, a Workload that is for such pods comes in its place, and no pod loses its finalizer before."""
    going = [wire(f"p{i}", group="g", total=2, gated=False, node="n", deleted=True) for i in range(2)]
    others = deleted(created(unit(*(wire(f"p{i}", group="g", total=2, cpu="9") for i in range(2)))))
    (let_go,) = plan(unit(*going), [others], AROUND, NOW).actions
    assert isinstance(let_go, PatchWorkload)
    assert let_go.patch["metadata"]["finalizers"] is None
    own = created(unit(*going))
    assert [pod_set.count for pod_set in own.spec.pod_sets] == [2]
    assert not [a for a in plan(unit(*going), [own], AROUND, NOW).actions if isinstance(a, ReleasePod)]
    ended = [wire(f"p{i}", group="g", total=2, gated=False, node="n", deleted=True, phase="Failed") for i in range(2)]
    made = plan(unit(*ended), [own], AROUND, NOW)
    assert [action.pod.metadata.name for action in made.actions if isinstance(action, ReleasePod)] == ["p0", "p1"]


def test_with_fast_admission_uncreated_pods_are_not_missing() -> None:
    fast = {names.POD_GROUP_FAST_ADMISSION: "true"}
    of = unit(wire("p", group="g", total=3, annotations=fast))
    workload = created(of)
    assert workload.spec.pod_sets[0].count == 3
    assert plan(of, [workload], AROUND, NOW).actions == ()


def test_a_fast_group_needs_one_pod_again_after_an_eviction() -> None:
    """Its first pod stands for all, the second time too."""
    fast = {names.POD_GROUP_FAST_ADMISSION: "true"}
    old = [wire(name, group="g", total=2, annotations=fast, gated=False, phase="Failed", deleted=True) for name in "ab"]
    waiting = created(unit(wire("a", group="g", total=2, annotations=fast)))
    evicted = admitted(waiting)
    status = conditions.evicted(evicted.status, "Preempted", "make room", NOW)
    status = conditions.with_condition(
        status, names.WAITING_FOR_REPLACEMENT_PODS, True, "Preempted", "make room", NOW, 0
    )
    new = unit(*old, wire("c", group="g", total=2, annotations=fast, created=1))
    made = plan(new, [evicted.model_copy(update={"status": status})], AROUND, NOW)
    (said,) = [action.status for action in made.actions if isinstance(action, SetStatus)]
    assert not is_true(said.conditions, names.WAITING_FOR_REPLACEMENT_PODS)


@pytest.mark.parametrize("quota", [True, False])
def test_a_deleted_pod_of_a_fast_group_is_let_go_once_another_stands_for_all(quota: bool) -> None:
    """Fewer pods than the group has replace it, as fewer were there before."""
    fast = {names.POD_GROUP_FAST_ADMISSION: "true"}
    old = wire("a", group="g", total=3, annotations=fast, gated=False, phase="Failed", deleted=True)
    waiting = created(unit(wire("a", group="g", total=3, annotations=fast)))
    own = admitted(waiting) if quota else waiting

    def released(*pods: dict[str, Any]) -> list[str]:
        made = plan(unit(*pods), [own], AROUND, NOW)
        return [action.pod.metadata.name for action in made.actions if isinstance(action, ReleasePod)]

    assert released(old, wire("b", group="g", total=3, annotations=fast, created=1)) == ["a"]
    assert not quota or released(old) == []


def test_quota_stays_until_no_pod_takes_up_a_node() -> None:
    pod = wire("p", group="g", total=1)
    workload = admitted(created(unit(pod)))
    status = conditions.evicted(workload.status, "Preempted", "make room", NOW)
    workload = workload.model_copy(update={"status": status})
    running = wire("p", group="g", total=1, gated=False, phase="Running", node="n")
    (stop,) = _but_status(plan(unit(running), [workload], AROUND, NOW))
    assert isinstance(stop, StopPod)
    assert (stop.reason, stop.message) == ("WorkloadEvictedDueToPreempted", "make room")
    for phase, released in (("Running", False), ("Failed", True)):
        ending = wire("p", group="g", total=1, gated=False, phase=phase, node="n", deleted=True)
        workload = _settled(ending, workload)
        made = plan(unit(ending), [workload], AROUND, NOW)
        given_back = [a for a in made.actions if isinstance(a, SetStatus) and a.status.admission is None]
        assert bool(given_back) is released


def _but_status(pod_group_plan: PodGroupPlan) -> list[Any]:
    return [action for action in pod_group_plan.actions if not isinstance(action, SetStatus)]


def _settled(pod: dict[str, Any], workload: Workload) -> Workload:
    """With the condition about replacements as the first look leaves it."""
    for action in plan(unit(pod), [workload], AROUND, NOW).actions:
        if isinstance(action, SetStatus) and action.status.admission is not None:
            return workload.model_copy(update={"status": action.status})
    return workload


def test_a_lone_pod_that_was_evicted_does_not_come_back_by_itself() -> None:
    of = unit(wire("p"))
    workload = admitted(created(of))
    status = conditions.evicted(workload.status, "Preempted", "make room", NOW)
    (given_back,) = plan(of, [workload.model_copy(update={"status": status})], AROUND, NOW).actions
    assert isinstance(given_back, SetStatus)
    assert given_back.status.admission is None
    assert not is_true(given_back.status.conditions, names.REQUEUED)


def test_pods_of_a_namespace_that_is_not_managed_are_left_alone() -> None:
    around = replace(AROUND, options=JobOptions(namespace_managed=lambda _: False))
    assert plan(unit(wire("p", gated=False)), [], around, NOW) == PodGroupPlan()


def test_the_youngest_that_do_not_run_are_too_many() -> None:
    pods = [wire(f"p{i}", group="g", total=2, created=i) for i in range(4)]
    made = plan(unit(*reversed(pods)), [], AROUND, NOW)
    assert [a.pod.metadata.name for a in made.actions if isinstance(a, DeletePod)] == ["p2", "p3"]


def test_of_a_large_group_some_own_the_workload_and_others_come_in_their_place() -> None:
    total = MAX_OWNERS + 50
    pods = [wire(f"p{i:04d}", group="g", total=total) for i in range(total)]
    of = unit(*pods)
    workload = created(of)
    owners = {owner.name for owner in workload.metadata.owner_references}
    assert len(owners) == MAX_OWNERS
    assert adopt(of, workload, of.pods) == ()
    gone = unit(*(pod | {"status": {"phase": "Failed"}} if pod["metadata"]["name"] == "p0000" else pod for pod in pods))
    (action,) = adopt(gone, workload, gone.counting)
    assert isinstance(action, AdoptWorkload)
    after = {owner["name"] for owner in action.patch["metadata"]["ownerReferences"]}
    assert len(after) == MAX_OWNERS
    assert "p0000" not in after


@pytest.mark.long
def test_ten_times_the_pods_take_ten_times_as_long_to_plan() -> None:
    def seconds(total: int) -> float:
        of = PodUnit.of([read(wire(f"p{i:05d}", group="g", total=total)) for i in range(total)])
        workload = admitted(created(of))
        begun = perf_counter()
        assert len(plan(of, [workload], AROUND, NOW).actions) == total
        return perf_counter() - begun

    seconds(100)
    assert seconds(10_000) < 40 * seconds(1_000)


def asking(name: str, **requests: str) -> dict[str, Any]:
    """A gated member of group g, whose maker has told its role."""
    said = {names.ROLE_HASH: "worker", names.POD_GROUP_TOTAL_COUNT: "2", names.POD_GROUP_NAME: "g"}
    pod = wire(name)
    pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **said}
    pod["spec"]["containers"][0]["resources"] = {"requests": requests}
    return pod


def made_beforehand() -> tuple[Workload, JobContext]:
    """A Workload that the maker of group g has made for it, admitted, and what is around then."""
    worker = PodSet(name="worker", count=2, template={"spec": asking("x", cpu="1")["spec"]})
    whole = admitted(Workload(metadata=ObjectMeta(name="g", namespace="ns"), spec=WorkloadSpec(pod_sets=(worker,))))
    return whole, replace(AROUND, workloads={"ns/g": whole})


def prebuilt(pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["annotations"][names.PREBUILT_WORKLOAD] = "g"
    return pod


def test_roles_that_the_maker_of_a_prebuilt_workload_tells_are_its_pod_sets() -> None:
    workload, around = made_beforehand()
    made = plan(unit(prebuilt(asking("a", cpu="1")), prebuilt(asking("b", cpu="500m"))), [workload], around, NOW)
    assert [action.pod.metadata.name for action in made.actions if isinstance(action, StartPod)] == ["a", "b"]


def test_a_pod_that_asks_for_more_than_the_role_it_claims_does_not_start() -> None:
    """The role is told by its maker, what counts is the pod."""
    workload, around = made_beforehand()
    large = {"cpu": "1", "nvidia.com/gpu": "4"}
    made = plan(unit(prebuilt(asking("a", cpu="1")), prebuilt(asking("b", **large))), [workload], around, NOW)
    assert [action.pod.metadata.name for action in made.actions if isinstance(action, StartPod)] == ["a"]
    (told,) = made.events
    assert (
        "ns/b: spec: 'nvidia.com/gpu 4': at most what pod set worker was admitted with: nvidia.com/gpu 0"
        in told.message
    )


@pytest.mark.parametrize(
    ("kind", "starts"),
    [("batch/v1/Job", 0), ("v1/Pod", 0), ("grove.io/v1alpha1/PodGang", 2)],
    ids=["a job's", "a pod's", "its maker's"],
)
def test_a_group_does_not_run_on_the_workload_of_a_job(kind: str, starts: int) -> None:
    """What a prebuilt Workload was admitted for runs once."""
    version, _, name = kind.rpartition("/")
    owner = OwnerReference(api_version=version, kind=name, name="o", uid="u", controller=True)
    workload, _ = made_beforehand()
    owned = workload.model_copy(
        update={"metadata": workload.metadata.model_copy(update={"owner_references": (owner,)})}
    )
    around = replace(AROUND, workloads={"ns/g": owned})
    made = plan(unit(prebuilt(asking("a", cpu="1")), prebuilt(asking("b", cpu="1"))), [owned], around, NOW)
    assert sum(isinstance(action, StartPod) for action in made.actions) == starts


@pytest.mark.parametrize("group", ["", "g"], ids=["pod", "group"])
@pytest.mark.parametrize("taken", [False, True], ids=["not there", "anothers"])
def test_a_pod_whose_prebuilt_workload_is_not_its_own_can_be_deleted(group: str, taken: bool) -> None:
    """It would terminate for ever; the others of its group go on waiting."""
    about: dict[str, Any] = {"group": group, "total": 2} if group else {}
    going, waits = prebuilt(wire("a", deleted=True, **about)), prebuilt(wire("b", **about))
    workload, around = made_beforehand()
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="o", uid="u", controller=True)
    metadata = workload.metadata.model_copy(update={"owner_references": (owner,)})
    around = replace(around, workloads={"ns/g": workload.model_copy(update={"metadata": metadata})} if taken else {})
    made = plan(unit(going, waits) if group else unit(going), [], around, NOW)
    assert [action.pod.metadata.name for action in made.actions if isinstance(action, ReleasePod)] == ["a"]
    assert len(made.events) == bool(group)


def without_owners(pod_group_plan: PodGroupPlan) -> PodGroupPlan:
    """The plan once its pods own the Workload."""
    return replace(
        pod_group_plan, actions=tuple(each for each in pod_group_plan.actions if not isinstance(each, AdoptWorkload))
    )


def held(workload: Workload) -> tuple[str, str] | None:
    found = find_condition(workload.status.conditions, names.PODS_HELD)
    return (found.reason, found.message) if found else None


def test_the_workload_says_which_pod_is_held_though_it_has_quota_until_that_pod_is_gone() -> None:
    """Every wait has its reason in the Workload's status, not only in an event."""
    workload, around = made_beforehand()
    pods = [prebuilt(asking("a", cpu="1")), prebuilt(asking("b", cpu="9"))]
    made = without_owners(plan(unit(*pods), [workload], around, NOW))
    _, said = with_reason(made, [workload], NOW).actions
    assert isinstance(said, SetStatus)
    told = workload.model_copy(update={"status": said.status})
    assert held(told) == (
        "PodGroupInconsistent",
        "ns/b: spec: 'cpu 9': at most what pod set worker was admitted with: cpu 1",
    )
    again = replace(around, workloads={"ns/g": told})
    made = without_owners(plan(unit(*pods), [told], again, NOW))
    assert with_reason(made, [told], NOW).actions == made.actions, "said once"
    pods[1] = prebuilt(asking("b", cpu="1"))
    made = without_owners(plan(unit(*pods), [told], again, NOW))
    *_, said = with_reason(made, [told], NOW).actions
    assert isinstance(said, SetStatus)
    assert held(told.model_copy(update={"status": said.status})) is None


def test_pods_of_a_group_that_has_finished_say_why_they_wait() -> None:
    """A group with `retriable-in-group: "false"` has finished, and then gets new pods, which stay gated."""
    about: dict[str, Any] = {"group": "g", "total": 2, "annotations": {names.RETRIABLE_IN_GROUP: "false"}}
    old = [wire(name, phase="Failed", gated=False, **about) for name in "ab"]
    started = admitted(created(unit(*(wire(name, **about) for name in "ab"))))
    (ends, *_) = plan(unit(*old), [started], AROUND, NOW).actions
    assert isinstance(ends, SetStatus)
    finished = started.model_copy(update={"status": ends.status})
    made = plan(unit(*old, wire("c", **about)), [finished], AROUND, NOW)
    why = (
        "its Workload has finished (Pods succeeded: 0/2.) and starts no more pods; delete the pods that have ended, and "
        "the Workload if it stays, or create this pod in another group"
    )
    said = [(action.pod.metadata.name, action.events) for action in made.actions if isinstance(action, ReleasePod)]
    assert said == [("a", ()), ("b", ()), ("c", (PlannedEvent("PodGroupFinished", why, "Warning"),))]
    *_, status = with_reason(made, [finished], NOW).actions
    assert isinstance(status, SetStatus)
    told = finished.model_copy(update={"status": status.status})
    assert held(told) == ("PodGroupFinished", why)
    gone = plan(unit(*old), [told], AROUND, NOW)
    *_, status = with_reason(gone, [told], NOW).actions
    assert isinstance(status, SetStatus)
    assert held(told.model_copy(update={"status": status.status})) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda w: w, ("GangWaiting", "late"), id="has quota"),
        pytest.param(
            lambda w: w.model_copy(update={"status": conditions.off_hold(w.status, NOW)}), None, id="has no quota"
        ),
        pytest.param(deleted, None, id="goes"),
    ],
)
def test_the_reason_of_a_waiting_gang_is_reported_once(change: Any, message: tuple[str, str] | None) -> None:
    workload = change(made_beforehand()[0])
    made = PodGroupPlan(events=(PlannedEvent("GangWaiting", "late"),), note="late")
    actions = with_reason(made, [workload], NOW).actions
    statuses = [action.status for action in actions if isinstance(action, SetStatus)]
    assert len(statuses) == len(actions)
    assert [held(workload.model_copy(update={"status": status})) for status in statuses] == (
        [message] if message else []
    )
