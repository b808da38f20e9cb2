"""A gang is bound whole once each of its places was, also when nobody had looked before one of the members left.

The controller looks when it comes to it. What happened since its last look stands in the pods: a member that was lost keeps
its node's name until the controller lets it go.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from admission.integrations.pods.gang import PodGang
from api.groups import PodGroup
from api.meta import find_condition, is_true
from api.names import EVICTED, GANG_BOUND
from tests.admission.controllers.pods.gang_simulation import GangSimulation
from tests.budgets import examples

A = PodGang("a", 3)
TIMEOUT = 10


def started(gang: PodGang = A) -> tuple[GangSimulation, list[str]]:
    """The gang's gates are open and the scheduler has bound none of its pods yet."""
    world = GangSimulation(3)
    spec = {"minMember": gang.minimum, "scheduleTimeoutSeconds": TIMEOUT}
    world.groups["a"] = PodGroup.from_wire({"metadata": {"name": "a", "namespace": "ns", "uid": "g"}, "spec": spec})
    made = [world.create(gang) for _ in range(3)]
    world.disliked = set(made)
    world.settle()
    return world, made


def is_known_as_whole(world: GangSimulation) -> bool:
    return is_true(world.workloads["ns/a"].status.conditions, GANG_BOUND)


def timed_out(world: GangSimulation) -> bool:
    found = find_condition(world.workloads["ns/a"].status.conditions, EVICTED)
    return found is not None and found.reason == "GangTimeout"


def lose(world: GangSimulation, name: str, loss: str) -> None:
    if loss == "deleted":
        world.delete(name)
    elif loss == "forced":
        world.pods[name] = replace(world.pods[name], deleted=True, forced=True)
    else:
        world.end(name, "Failed")


@pytest.mark.parametrize("loss", ["deleted", "forced", "failed"])
@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("restart", [False, True], ids=["same-controller", "another-controller"])
def test_members_that_were_replaced_before_anybody_looked_had_been_bound(loss: str, lost: int, restart: bool) -> None:
    """The successors may take longer than the timeout, which bounds the start alone."""
    world, made = started()
    world.disliked.clear()
    world.bind()
    for name in made[:lost]:
        lose(world, name, loss)
    world.disliked = {world.create(A) for _ in range(lost)}
    if restart:
        world.restart()
    world.settle()
    assert is_known_as_whole(world), world.story()
    world.now += 3 * TIMEOUT
    world.settle()
    assert (timed_out(world), world.running("a")) == (False, 3 - lost), world.story()
    world.disliked.clear()
    world.settle()
    assert (world.running("a"), list(world.workloads)) == (3, ["ns/a"])


def test_a_place_whose_pods_were_never_bound_is_not_made_up_for_by_one_that_two_pods_had() -> None:
    """The timeout still bounds the start."""
    world, made = started()
    world.disliked = {made[2]}
    world.bind()
    lose(world, made[0], "deleted")
    world.create(A)
    world.settle()
    assert (world.running("a"), is_known_as_whole(world)) == (2, False), world.story()
    world.now += TIMEOUT + 1
    world.settle()
    assert timed_out(world)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_gang_that_was_bound_at_one_moment_is_never_timed_out(seed: int) -> None:
    """Binding, loss, succession, looks and restarts of the controller in any order, within the timeout."""
    chance = random.Random(seed)
    world, _ = started()
    whole, places = False, set[int]()
    place = {name: number for number, name in enumerate(sorted(world.pods))}
    vacant: list[int] = []
    for _ in range(chance.randint(3, 20)):
        event = chance.choice(["bind", "bind", "lose", "succeed", "succeed", "look", "restart"])
        bound = sorted(name for name, pod in world.pods.items() if pod.running)
        open_ones = sorted(name for name, pod in world.pods.items() if pod.phase == "Pending" and not pod.gated)
        if event == "bind" and open_ones:
            name = chance.choice(open_ones)
            world.disliked.discard(name)
            world.bind()
            places.add(place[name])
        elif event == "lose" and bound:
            name = chance.choice(bound)
            lose(world, name, chance.choice(["deleted", "failed"]))
            vacant.append(place[name])
        elif event == "succeed" and vacant:
            name = world.create(A)
            world.disliked.add(name)
            place[name] = vacant.pop(0)
        elif event in ("look", "restart"):
            if event == "restart":
                world.restart()
            world.settle()
        whole = whole or world.running("a") == 3
        if not world.running("a") and not open_ones:
            break  # all of them were lost: the gang has ended, or starts anew
    world.settle()
    if "ns/a" not in world.workloads:
        return
    assert not is_known_as_whole(world) or places == {0, 1, 2}, world.story()
    world.now += 3 * TIMEOUT
    world.settle()
    assert not (whole and timed_out(world)), world.story()
