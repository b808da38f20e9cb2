"""Where a gang asks to go: what its PodGroup says and what its pods say, for each role and for all of them together."""

from __future__ import annotations

import json

import pytest

from admission.controllers.pods.gangs.gang import GangUnit, LateUnit, terms_of
from admission.integrations.pods.gang import PodGang
from admission.integrations.pods.podgroup import PodUnit, UnlikePods
from api import names
from api.errors import InvalidObject
from api.groups import PodGroup
from api.topology_request import TopologyRequest
from api.workloads import PodSet
from tests.admission.integrations.pods import read, wire

RACK, BLOCK, HOST = "t/rack", "t/block", names.HOSTNAME_LABEL
Texts = dict[str, str]


def gang_pod(name: str, cpu: str = "1", **annotations: str) -> dict[str, object]:
    said = {names.GANG: "g", names.GANG_TERMS: PodGang("g", 3).to_text(), **annotations}
    return wire(name, cpu=cpu, annotations=said)


def terms(pods: list[dict[str, object]], group: Texts | None) -> tuple[PodUnit, GangUnit]:
    meta = {"name": "g", "namespace": "ns", "uid": "u", "annotations": group}
    made = None if group is None else PodGroup.from_wire({"metadata": meta, "spec": {"minMember": 3}})
    unit = PodUnit.of(read(pod) for pod in pods)
    return unit, GangUnit.of_gang(unit, terms_of(unit.pods, made))


def asked(pods: list[dict[str, object]], group: Texts | None = None) -> dict[int, TopologyRequest]:
    """What each role asks, by its number of pods."""
    found = {}
    for pod_set in terms(pods, group)[1].pod_sets():
        assert pod_set.topology_request is not None
        found[pod_set.count] = pod_set.topology_request
    return found


def roles(server: Texts | None = None, worker: Texts | None = None) -> list[dict[str, object]]:
    """One pod of one role, two of another."""
    workers = [gang_pod(f"w{index}", **(worker or {})) for index in range(2)]
    return [gang_pod("ps", "4", **(server or {})), *workers]


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        pytest.param({names.REQUIRED_TOPOLOGY: RACK}, {"required": RACK}, id="required"),
        pytest.param({names.REQUIRE_TOPOLOGY: RACK}, {"required": RACK}, id="require, the first form"),
        pytest.param({names.PREFERRED_TOPOLOGY: RACK}, {"preferred": RACK}, id="preferred"),
        pytest.param({names.PREFER_TOPOLOGY: "auto"}, {"preferred": "auto"}, id="prefer auto"),
        pytest.param(
            {names.REQUIRED_TOPOLOGY: RACK, names.RELAX_TOPOLOGY_AFTER: "5m"},
            {"required": RACK, "relax_after_seconds": 300},
            id="relaxed",
        ),
    ],
)
def test_a_level_of_the_pod_group_binds_all_roles_to_one_domain(group: Texts, wanted: Texts) -> None:
    for request in asked(roles(), group).values():
        assert request.pod_set_group_name == "ns/g"
        assert {key: getattr(request, key) for key in wanted} == wanted


def test_a_gang_of_one_role_needs_no_placement_group() -> None:
    pods = [gang_pod(f"p{index}") for index in range(3)]
    assert asked(pods, {names.REQUIRED_TOPOLOGY: RACK})[3].pod_set_group_name is None


def test_what_the_pods_say_goes_before_what_the_pod_group_says() -> None:
    found = asked(roles(server={names.PREFERRED_TOPOLOGY: BLOCK}), {names.REQUIRED_TOPOLOGY: RACK})
    assert (found[1].preferred, found[1].required, found[1].pod_set_group_name) == (BLOCK, None, None)
    assert (found[2].required, found[2].pod_set_group_name) == (RACK, None), "the other role is alone with the level"


def test_pods_bind_their_roles_by_a_name_of_their_own() -> None:
    one = {names.REQUIRED_TOPOLOGY: RACK, names.PODSET_GROUP_NAME: "one"}
    assert {request.pod_set_group_name for request in asked(roles(one, one)).values()} == {"one"}
    found = asked(roles(), {**one, names.PODSET_GROUP_NAME: "named"})
    assert {request.pod_set_group_name for request in found.values()} == {"named"}


def test_without_a_level_nothing_is_bound() -> None:
    for request in asked(roles(), {names.UNCONSTRAINED_TOPOLOGY: "true"}).values():
        assert (request.unconstrained, request.pod_set_group_name) == (True, None)
    for request in asked(roles(), None).values():
        assert not request.explicit


def test_slices_and_shapes_of_the_pod_group_hold_for_each_role() -> None:
    slices = {names.SLICE_REQUIRED_TOPOLOGY: HOST, names.SLICE_SIZE: "1"}
    for request in asked(roles(), slices).values():
        assert (request.pod_set_slice_required_topology, request.pod_set_slice_size) == (HOST, 1)
    layers = json.dumps([{"topology": RACK, "size": 1}])
    for request in asked(roles(), {names.REQUIRED_TOPOLOGY: BLOCK, names.SLICE_CONSTRAINTS: layers}).values():
        assert request.podset_slice_required_topology_constraints is not None
    shape = {names.PLACEMENT_CONSTRAINTS: '{"rack": {"type": "spread"}}'}
    assert [len(request.constraints or ()) for request in asked(roles(), shape).values()] == [1, 1]
    own = {names.PLACEMENT_CONSTRAINTS: '{"node": {"type": "pack"}}'}
    levels = [c.level for request in asked(roles(own, own), shape).values() for c in request.constraints or ()]
    assert levels == ["node", "node"], "those of the pods go before"


@pytest.mark.parametrize(
    ("pods", "group", "field", "text"),
    [
        pytest.param(
            [gang_pod("a", **{names.REQUIRED_TOPOLOGY: RACK}), gang_pod("b", **{names.REQUIRED_TOPOLOGY: BLOCK})],
            {},
            names.REQUIRED_TOPOLOGY,
            f"'{RACK} in pod a, {BLOCK} in pod b': the same in all pods of one role",
            id="pods of one role differ",
        ),
        pytest.param(
            [gang_pod("a", **{names.REQUIRED_TOPOLOGY: RACK}), gang_pod("b")],
            {},
            names.REQUIRED_TOPOLOGY,
            "None in pod b",
            id="one of the role says nothing",
        ),
        pytest.param(
            [gang_pod(f"p{index}") for index in range(3)],
            {names.SLICE_REQUIRED_TOPOLOGY: HOST, names.SLICE_SIZE: "2"},
            names.SLICE_SIZE,
            "a size that divides the 3 pods of role",
            id="slices leave pods over",
        ),
        pytest.param(
            roles(),
            {names.REQUIRED_TOPOLOGY: RACK, names.PLACEMENT_CONSTRAINTS: '{"node": {"type": "spread"}}'},
            names.PLACEMENT_CONSTRAINTS,
            "none where the 2 roles of a gang share the level of their PodGroup",
            id="shapes of roles that share a domain",
        ),
    ],
)
def test_contradictions_are_reported(pods: list[dict[str, object]], group: Texts, field: str, text: str) -> None:
    with pytest.raises(InvalidObject) as told:
        terms(pods, group)[1].pod_sets()
    assert field in str(told.value)
    assert text in str(told.value)


def test_pods_that_differ_are_reported_as_contradictory() -> None:
    pods = [gang_pod("a", **{names.REQUIRED_TOPOLOGY: RACK}), gang_pod("b")]
    with pytest.raises(UnlikePods):
        terms(pods, {})[1].pod_sets()


def test_who_comes_late_asks_for_the_level_and_for_no_shape() -> None:
    group = {names.REQUIRED_TOPOLOGY: RACK, names.SLICE_REQUIRED_TOPOLOGY: HOST, names.SLICE_SIZE: "2"}
    unit, _ = terms([gang_pod("late")], group)
    meta = {"name": "g", "namespace": "ns", "annotations": group}
    held = terms_of(unit.pods, PodGroup.from_wire({"metadata": meta, "spec": {"minMember": 3}}))
    (made,) = LateUnit.of_pod(unit.first, held).pod_sets()
    assert isinstance(made, PodSet)
    assert made.topology_request is not None
    assert made.topology_request.required == RACK
    assert made.topology_request.pod_set_slice_required_topology is None


def test_the_profile_of_the_pod_group_goes_to_the_workload_unless_a_pod_names_one() -> None:
    for own, wanted in ({}, "Compatible"), ({names.PLACEMENT_PROFILE: "LeastFree"}, None):
        unit, _ = terms([gang_pod("a", **own)], {})
        meta = {"name": "g", "namespace": "ns", "annotations": {names.PLACEMENT_PROFILE: "Compatible"}}
        held = terms_of(unit.pods, PodGroup.from_wire({"metadata": meta, "spec": {"minMember": 1}}))
        assert held.annotations().get(names.PLACEMENT_PROFILE) == wanted
