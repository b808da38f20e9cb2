"""What is done about gangs, on plain objects: minimum, late members, time limits, ends, groups half written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.controllers.pods.gangs.gang import terms_of
from admission.integrations.pods.gang import MatchPolicy, PodGang
from admission.integrations.pods.podgroup import UnlikePods
from api.groups import PodGroup
from api.meta import find_condition
from api.names import EVICTED, FINISHED, GANG_MADE, QUOTA_RESERVED
from tests.admission.controllers.pods.gang_simulation import SPEC, GangSimulation

A = PodGang("a", 3)
BOTH = ("ns/a", "ns/b")


def reason(world: GangSimulation, key: str, kind: str = QUOTA_RESERVED) -> tuple[str, str]:
    found = find_condition(world.workloads[f"ns/{key}"].status.conditions, kind)
    return (found.reason, found.message) if found else ("", "")


def group(minimum: int, timeout: int | None = None) -> PodGroup:
    spec = {"minMember": minimum, **({"scheduleTimeoutSeconds": timeout} if timeout else {})}
    return PodGroup.from_wire({"metadata": {"name": "a", "namespace": "ns", "uid": "g"}, "spec": spec})


def test_nothing_is_asked_for_below_the_minimum_and_all_start_at_it() -> None:
    world = GangSimulation(8)
    for _ in range(2):
        world.create(A)
    world.settle()
    assert world.workloads == {}
    world.create(A)
    world.settle()
    assert world.running("a") == 3


def test_a_workload_that_waits_follows_its_pods_down_to_the_minimum_and_no_further() -> None:
    world = GangSimulation(2)
    made = [world.create(A) for _ in range(5)]
    world.settle()
    assert world.workloads["ns/a"].spec.pod_sets[0].count == 5
    world.delete(made[0])
    world.settle()
    assert world.workloads["ns/a"].spec.pod_sets[0].count == 4
    for name in made[1:3]:
        world.delete(name)
    world.settle()
    assert reason(world, "a") == ("Suspended", "2 of 3 pods exist")
    assert len(world.pods) == 2
    assert world.held() == 0


def test_the_minimum_starts_and_the_rest_follows_when_there_is_room() -> None:
    world = GangSimulation(4)
    made = [world.create(A) for _ in range(6)]
    world.settle()
    assert (world.running("a"), world.held(), len(world.pods)) == (4, 4, 6)
    world.end(made[0], "Succeeded")
    world.settle()
    assert world.running("a") == 4, "the fifth takes the place of the one that ended"
    world.restart()
    world.delete(made[1])
    world.settle()
    assert world.running("a") == 4, "the sixth takes the place of the one that was lost"


@pytest.mark.parametrize("more", [0, 1])
def test_no_gate_opens_while_something_else_holds_a_member_that_the_minimum_needs(more: int) -> None:
    """The two others would run alone until the time limit, and be deleted."""
    world = GangSimulation(8)
    for _ in range(2 + more):
        world.create(A)
    held = world.create(A)
    world.pods[held] = replace(world.pods[held], foreign_gate="example.com/later")
    world.settle()
    assert (world.running("a"), world.held()) == (3 * more, 3 * more), "with three others there is the minimum"
    world.pods[held] = replace(world.pods[held], foreign_gate="")
    world.settle()
    assert (world.running("a"), world.held()) == (3 + more, 3 + more)


def test_a_gang_waits_for_the_claim_of_each_member_that_the_minimum_needs() -> None:
    world = GangSimulation(8)
    for name in ("one", "two", "three"):
        volumes = b'{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"' + name.encode() + b'"}}],'
        world.create(A, spec=SPEC.replace(b"{", volumes, 1))
    world.problems["ns/two"] = "waits for PersistentVolumeClaim two to be bound"
    world.settle()
    assert (world.running("a"), world.workloads) == (0, {})
    assert world.notes["a"] == (
        "2 of 3 pods exist that nothing else holds: pod a-2: waits for PersistentVolumeClaim two to be bound"
    )
    world.problems.clear()
    world.settle()
    assert world.running("a") == 3


def test_pods_that_come_never_make_it_harder_to_start() -> None:
    """Three that would fit are joined by three more before there is room."""
    world = GangSimulation(2)
    for _ in range(6):
        world.create(A)
    world.settle()
    assert (world.running("a"), world.held()) == (0, 0)
    world.shrink(3)
    world.settle()
    assert (world.running("a"), world.held()) == (3, 3)


@pytest.mark.parametrize("room", [3, 4, 5, 6])
@pytest.mark.parametrize("roles", [("x", "x", "x", "y", "y", "y"), ("u", "v", "w", "x", "y", "z")])
def test_the_minimum_is_of_whichever_roles_there_is_room_for(room: int, roles: tuple[str, ...]) -> None:
    world = GangSimulation(room)
    for role in roles:
        world.create(A, role)
    world.settle()
    assert (world.running("a"), world.held()) == (room, room)


@pytest.mark.parametrize("large", ["x", "y"])
def test_a_role_without_room_does_not_keep_the_minimum_of_another_from_starting(large: str) -> None:
    world = GangSimulation(4)
    for role in ("x", "x", "x", "y", "y", "y"):
        world.create(A, role, SPEC.replace(b'"cpu":"1"', b'"cpu":"4"') if role == large else SPEC)
    world.settle()
    assert (world.running("a"), world.held()) == (3, 3)


def test_a_gang_that_started_in_part_goes_back_whole_and_starts_again_with_what_there_is() -> None:
    world = GangSimulation(5, high=["b"])
    for _ in range(6):
        world.create(A)
    world.settle()
    assert world.running("a") == 5
    first = [world.create(PodGang("b", 5)) for _ in range(5)]
    world.settle()
    assert (world.running("a"), world.running("b")) == (0, 5)
    for _ in range(5):
        world.create(A)
    world.settle()
    for name in first[:4]:
        world.end(name, "Succeeded")
    world.settle()
    assert (world.running("a"), world.running("b")) == (4, 1)


def test_who_comes_late_joins_as_long_as_there_is_room() -> None:
    world = GangSimulation(5)
    for _ in range(3):
        world.create(A)
    world.settle()
    for _ in range(3):
        world.create(A)
    world.settle()
    assert (world.running("a"), world.held()) == (5, 5)
    world.end(next(iter(world.pods)), "Succeeded")
    world.settle()
    assert world.running("a") == 5


def test_late_members_count_where_the_gang_needs_its_minimum() -> None:
    world = GangSimulation(5)
    world.groups["a"] = group(3, timeout=10)
    first = [world.create(A) for _ in range(3)]
    world.settle()
    for _ in range(2):
        world.create(A)
    world.settle()
    world.now += 11
    world.delete(first[0])
    world.settle()
    world.now += 11
    world.settle()
    assert (reason(world, "a", EVICTED), world.running("a")) == (("", ""), 4)


def test_a_gang_whose_first_members_were_forced_away_gives_their_quota_back_when_it_is_evicted() -> None:
    world = GangSimulation(5, high=["b"])
    world.groups["a"] = group(3, timeout=10)
    first = [world.create(A) for _ in range(3)]
    world.settle()
    late = world.create(A)
    world.settle()
    for name in first:
        del world.pods[name]
    world.settle()
    assert (world.held(), world.pods[late].running) == (4, True)
    for _ in range(5):
        world.create(PodGang("b", 5))
    world.settle()
    assert (world.running("a"), late in world.pods, world.running("b")) == (0, False, 5), "it goes back whole"


@pytest.mark.parametrize("policy", list(MatchPolicy))
@pytest.mark.parametrize("lost", ["deleted", "Failed", "forced away"])
@pytest.mark.parametrize("after", [2, 30])
def test_a_gang_that_was_bound_whole_waits_for_the_successor_of_a_lost_member(
    policy: MatchPolicy, lost: str, after: int
) -> None:
    """The timeout bounds the start only; the others run on, and the successor takes the lost one's place."""
    world, gang = GangSimulation(3), replace(A, policy=policy)
    world.groups["a"] = group(3, timeout=10)
    made = [world.create(gang) for _ in range(3)]
    world.settle()
    world.now += after
    world.settle()
    match lost:
        case "deleted":
            world.delete(made[0])
        case "Failed":
            world.end(made[0], "Failed")
        case _:
            del world.pods[made[0]]
    for _ in range(30):
        world.now += 1
        world.settle()
    assert (world.running("a"), world.held(), reason(world, "a", EVICTED)) == (2, 3, ("", ""))
    successor = world.create(gang)
    world.settle()
    assert (world.running("a"), world.pods[successor].running, list(world.workloads)) == (3, True, ["ns/a"])


def test_a_successor_that_comes_while_the_lost_member_is_still_ending_takes_its_place() -> None:
    """A Deployment makes the next pod at once; there is no room for a fourth."""
    world = GangSimulation(3)
    world.groups["a"] = group(3, timeout=10)
    made = [world.create(A) for _ in range(3)]
    world.settle()
    world.pods[made[0]] = replace(world.pods[made[0]], deleted=True)  # its grace runs
    successor = world.create(A)
    world.settle()
    assert (world.pods[successor].gated, list(world.workloads)) == (True, ["ns/a"])
    world.delete(made[0])
    world.settle()
    assert (world.pods[successor].running, world.running("a"), list(world.workloads)) == (True, 3, ["ns/a"])


def test_a_late_member_without_quota_takes_the_place_of_a_member_that_is_lost() -> None:
    """It waited for quota of its own, and needs none any more."""
    world = GangSimulation(3)
    made = [world.create(A) for _ in range(3)]
    world.settle()
    late = world.create(A)
    world.settle()
    assert (len(world.workloads), world.pods[late].gated) == (2, True)
    world.delete(made[0])
    world.settle()
    assert (world.pods[late].running, world.held(), list(world.workloads)) == (True, 3, ["ns/a"])


def test_the_start_timeout_restarts_after_each_eviction() -> None:
    """A gang that had been bound whole and was evicted has to be bound whole again."""
    world = GangSimulation(3, high=["b"])
    world.groups["a"] = group(3, timeout=10)
    for _ in range(3):
        world.create(A)
    world.settle()
    high = [world.create(PodGang("b", 3)) for _ in range(3)]
    world.settle()
    for _ in range(3):
        world.create(A)
    world.disliked = {sorted(name for name in world.pods if name.startswith("a-"))[0]}
    for name in high:
        world.end(name, "Succeeded")
    world.settle()
    assert world.running("a") == 2
    world.now += 11
    world.settle()
    assert reason(world, "a", EVICTED) == ("GangTimeout", "2 of 3 pods were bound within 10s")


def test_a_late_member_of_a_gang_whose_workload_was_deleted_goes_on_and_can_be_evicted() -> None:
    world = GangSimulation(4, high=["b"])
    for _ in range(3):
        world.create(A)
    world.settle()
    late = world.create(A)
    world.settle()
    world.delete_workload("ns/a")
    world.settle()
    assert [pod.metadata.name for pod in world.pods.values() if pod.running] == [late]
    for _ in range(4):
        world.create(PodGang("b", 4))
    world.settle()
    assert (world.running("b"), world.held()) == (4, 4)


def test_a_late_member_that_waits_does_so_with_the_others_again_when_they_go_back() -> None:
    world = GangSimulation(3)
    world.groups["a"] = group(3, timeout=10)
    world.disliked.add(world.create(A))
    for _ in range(2):
        world.create(A)
    world.settle()
    late = world.create(A)
    world.settle()
    assert len(world.workloads) == 2
    world.now += 11
    world.settle()
    assert reason(world, "a", EVICTED)[0] == "GangTimeout"
    assert list(world.workloads) == ["ns/a"], "it has none of its own any more"
    for _ in range(2):
        world.create(A)
    world.now += 700
    world.settle()
    assert (world.running("a"), world.pods[late].running, list(world.workloads)) == (3, True, ["ns/a"])


@pytest.mark.parametrize(
    ("policy", "joins"),
    [
        (MatchPolicy.ONLY_WAITING, False),
        (MatchPolicy.WAITING_AND_RUNNING, False),
        (MatchPolicy.WAITING_RUNNING_SUCCEED, True),
        (MatchPolicy.ONCE_SATISFIED, True),
    ],
)
def test_the_match_policy_says_which_ended_pods_count(policy: MatchPolicy, joins: bool) -> None:
    world, gang = GangSimulation(8), replace(A, policy=policy)
    made = [world.create(gang) for _ in range(3)]
    world.settle()
    for name in made[:2]:
        world.end(name, "Succeeded")
    late = world.create(gang)
    world.settle()
    assert world.pods[late].running is joins


def _wait_until_not_bound_in_time(world: GangSimulation) -> float:
    """Creates the gang's three pods, one of which is never bound; returns how long they waited before their timeout began."""
    made = [world.create(A) for _ in range(3)]
    world.disliked = {made[0]}
    began = world.now
    while world.running("a") < 2:
        world.now += 1
        world.settle()
    waited = world.now - began
    world.now += 10
    world.settle()
    return waited


def test_a_gang_that_is_not_bound_in_time_goes_back_and_comes_again_later_and_later() -> None:
    world = GangSimulation(8)
    world.groups["a"] = group(3, timeout=10)
    waits = []
    for _ in range(3):
        waits.append(_wait_until_not_bound_in_time(world))
        assert reason(world, "a", EVICTED) == ("GangTimeout", "2 of 3 pods were bound within 10s")
        assert (world.pods, world.held()) == ({}, 0) or all(pod.deleted for pod in world.pods.values())
    assert waits[1] < waits[2], waits


def test_the_backoff_of_a_gang_doubles_though_its_workload_goes_each_time() -> None:
    """Its pods come anew at once, as a Job's do; the Workload went with those before."""
    world = GangSimulation(8)
    world.groups["a"] = group(3, timeout=10)
    waits = []
    for _ in range(4):
        waits.append(_wait_until_not_bound_in_time(world))
        assert all(pod.deleted for pod in world.pods.values())
        world.pods.clear()
        world.workloads.pop("ns/a", None)  # the collector has it
    assert waits[0] <= 1
    assert [round(wait, -1) for wait in waits[1:]] == [10, 20, 40], waits


def test_once_a_gang_was_bound_whole_its_backoff_restarts() -> None:
    world = GangSimulation(8, high=["b"])
    world.groups["a"] = group(3, timeout=10)
    made = [world.create(A) for _ in range(3)]
    world.disliked = {made[0]}
    world.settle()
    world.now += 11
    world.settle()
    assert world.known.stops("ns/a", None)
    for _ in range(3):
        world.create(A)
    world.now += 15
    world.settle()
    assert (world.running("a"), world.known.stops("ns/a", None)) == (3, None)


def test_the_time_of_a_large_gang_runs_from_the_opening_of_its_last_gate() -> None:
    world = GangSimulation(200)
    world.groups["a"] = group(200, timeout=10)
    world.disliked.add(world.create(PodGang("a", 200)))
    for _ in range(199):
        world.create(PodGang("a", 200))
    world.settle()
    world.now += 11
    world.settle()
    assert world.running("a") == 199
    world.now += 2
    world.settle()
    assert reason(world, "a", EVICTED) == ("GangTimeout", "199 of 200 pods were bound within 10s")


def test_a_gang_ends_well_when_as_many_as_the_minimum_succeed() -> None:
    world = GangSimulation(4)
    made = [world.create(A) for _ in range(4)]
    world.settle()
    for name in made[:3]:
        world.end(name, "Succeeded")
    world.end(made[3], "Failed")
    world.settle()
    assert reason(world, "a", FINISHED)[0] == "Succeeded"
    assert world.held() == 0


def test_pods_that_come_after_the_end_make_a_gang_of_their_own() -> None:
    world = GangSimulation(4)
    for name in [world.create(A) for _ in range(3)]:
        world.settle()
        world.end(name, "Failed")
    world.settle()
    made = [world.create(A) for _ in range(3)]
    world.settle()
    assert all(world.pods[name].running for name in made), world.story()


@pytest.mark.parametrize("written", [0, 1, 2])
def test_after_a_crash_half_way_all_of_a_group_runs_or_none(written: int) -> None:
    world = GangSimulation(5)
    for gang, pods in ((PodGang("a", 2, groups=BOTH), 2), (PodGang("b", 3, groups=BOTH), 3)):
        for _ in range(pods):
            world.create(gang)
    world.settle(crash_after=written)
    assert (world.running("a"), world.running("b")) == (2, 3), world.story()


def test_half_a_group_gives_back_what_it_has_when_the_rest_finds_no_room() -> None:
    world, other = GangSimulation(5), PodGang("c", 3)
    for gang, pods in ((PodGang("a", 2, groups=BOTH), 2), (PodGang("b", 3, groups=BOTH), 3)):
        for _ in range(pods):
            world.create(gang)
    original = world.restart
    taken: list[bool] = []

    def restart() -> None:
        """While nobody leads, the room of the rest goes to pods that nobody queued."""
        original()
        if not taken:
            taken.append(True)
            world.shrink(4)

    world.restart = restart  # type: ignore[method-assign]
    world.settle(crash_after=1)
    assert (world.running("a"), world.running("b"), world.held()) == (0, 0, 0), world.story()
    for _ in range(3):
        world.create(other)
    world.settle()
    assert world.running("c") == 3


def test_a_pod_group_goes_before_what_the_pods_say() -> None:
    world = GangSimulation(8)
    world.create(replace(A, groups=("ns/a", "ns/x")))
    said = {
        "pod-group.scheduling.sigs.k8s.io/groups": '["ns/b"]',
        "pod-group.scheduling.sigs.k8s.io/match-policy": "only-waiting",
    }
    meta = {"name": "a", "namespace": "ns", "uid": "g", "annotations": said}
    told = PodGroup.from_wire({"metadata": meta, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 60}})
    terms = terms_of(list(world.pods.values()), told)
    assert (terms.minimum, terms.groups, terms.policy) == (2, BOTH, MatchPolicy.ONLY_WAITING)
    assert (terms.schedule_timeout, terms.uid, terms.since) == (60.0, "g", world.now)


def test_a_pod_group_made_of_labels_changes_nothing_for_a_gang_that_waits() -> None:
    world = GangSimulation(8)
    world.create(A)
    meta = {"name": "a", "namespace": "ns", "uid": "g", "labels": {GANG_MADE: "true"}}
    made = PodGroup.from_wire({"metadata": meta, "spec": {"minMember": A.minimum}})
    pods = list(world.pods.values())
    assert terms_of(pods, made) == terms_of(pods, None)


def test_pods_that_contradict_each_other_are_named() -> None:
    world = GangSimulation(8)
    one, other = world.create(A), world.create(replace(A, minimum=4))
    with pytest.raises(UnlikePods) as unlike:
        terms_of(list(world.pods.values()), None)
    assert f"3 in pod {one}" in str(unlike.value)
    assert f"4 in pod {other}" in str(unlike.value)
