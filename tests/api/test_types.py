"""The resource types: every object of the API comes back as it was, unknown fields included."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.meta import KubeObject
from api.topology import ResourceFlavor, Topology
from api.topology_request import TopologyRequest
from api.workloads import Workload
from hack.crds.kinds import KINDS
from tests.conformance import runner
from tests.hack import objects, refused, taken
from tests.hack.objects import Obj

TYPES: dict[tuple[str, str], type[KubeObject]] = {(kind.model.API_VERSION, kind.name): kind.model for kind in KINDS}


def type_of(obj: Obj) -> type[KubeObject]:
    """What the object is read as."""
    return TYPES[obj["apiVersion"], obj["kind"]]


def with_unknown_fields(value: Any) -> Any:
    """The same with a field that nobody knows in each object and list entry."""
    if isinstance(value, list):
        return [with_unknown_fields(item) for item in value]
    if not isinstance(value, dict) or all(isinstance(v, str) for v in value.values()):
        return deepcopy(value)
    return {**{key: with_unknown_fields(child) for key, child in value.items()}, "fromTheFuture": {"deep": [1]}}


@pytest.mark.parametrize("obj", taken.VALID)
def test_round_trip(obj: Obj) -> None:
    assert type_of(obj).from_wire(obj).to_wire() == obj


@pytest.mark.parametrize("obj", taken.VALID)
def test_round_trip_keeps_unknown_fields(obj: Obj) -> None:
    newer = with_unknown_fields(obj)
    # maps of quantities and names: no place for other fields
    for part in ("flavors", "resourceUsage", "resources", "minResources"):
        _drop(newer, part)
    assert type_of(obj).from_wire(newer).to_wire() == newer


def _drop(value: Any, part: str) -> None:
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _drop(child, part)
    if isinstance(value, dict) and isinstance(value.get(part), dict):
        value[part].pop("fromTheFuture", None)


@pytest.mark.parametrize(("obj", "message"), refused.REFUSED)
def test_reading_is_tolerant_of_what_the_server_refuses(obj: Obj, message: str) -> None:
    if "Unsupported value" in message or obj["kind"] == "WorkloadPriorityClass":
        with pytest.raises(ValidationError):  # a closed set of values, or nothing to read at all
            type_of(obj).from_wire(obj)
    else:
        assert type_of(obj).from_wire(obj).to_wire() == obj


def conformance_objects() -> list[Any]:
    """Every object of our group in the suites, once each."""
    found: dict[str, Any] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if (value.get("apiVersion"), value.get("kind")) in TYPES:
                found.setdefault(repr(value), value)
            for child in value.values():
                walk(child)
        elif isinstance(value, list):
            for child in value:
                walk(child)

    for cases in runner.suites().values():
        for case in cases:
            walk(case.read())
    return list(found.values())


def test_objects_of_the_suites_come_back() -> None:
    if not runner.suites():
        pytest.skip("the suite files are absent")
    given = conformance_objects()
    assert given
    for obj in given:
        assert type_of(obj).from_wire(obj).to_wire() == without_nulls(obj)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def test_the_wires_own_spelling_is_kept() -> None:
    wire = {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}], "podSetSliceSize": 4}
    request = TopologyRequest.from_wire(wire)
    assert request.podset_slice_required_topology_constraints is not None
    assert request.to_wire() == wire


@pytest.mark.parametrize(
    ("wire", "explicit"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"podIndexLabel": "i", "subGroupCount": 2}, False, id="labels alone"),
        pytest.param({"podSetGroupName": "g"}, False, id="group alone"),
        pytest.param({"podsetSliceRequiredTopologyConstraints": []}, False, id="no layers"),
        pytest.param({"required": "rack"}, True, id="required"),
        pytest.param({"preferred": "rack"}, True, id="preferred"),
        pytest.param({"unconstrained": True}, True, id="unconstrained"),
        pytest.param({"unconstrained": False}, True, id="unconstrained false is set all the same"),
        pytest.param({"podSetSliceRequiredTopology": "rack"}, True, id="slice level"),
        pytest.param({"podSetSliceSize": 2}, True, id="slice size"),
        pytest.param({"podsetSliceRequiredTopologyConstraints": [{"topology": "a", "size": 1}]}, True, id="layers"),
    ],
)
def test_explicit(wire: dict[str, Any], explicit: bool) -> None:
    assert TopologyRequest.from_wire(wire).explicit == explicit


def test_levels() -> None:
    assert Topology.from_wire(objects.topology("a", "b")).levels == ("a", "b")


@pytest.mark.parametrize(
    ("spec", "aware"),
    [({}, False), ({"topologyName": "t"}, True), ({"topology": {"levels": ["a"]}}, True)],
)
def test_topology_aware(spec: dict[str, Any], aware: bool) -> None:
    assert ResourceFlavor.from_wire(objects.flavor(**spec)).topology_aware == aware


def test_defaults_are_those_of_the_server() -> None:
    workload = Workload.from_wire({"metadata": {"name": "w"}, "spec": {"podSets": [{}]}})
    assert (workload.spec.active, workload.spec.pod_sets[0].name, workload.spec.pod_sets[0].count) == (True, "main", 1)


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(ValidationError, match=r"spec\.podSets\.0\.count"):
        Workload.from_wire({"spec": {"podSets": [{"count": "many"}]}})


@given(amount=st.one_of(st.integers(0, 10**12), st.from_regex(r"[0-9]{1,6}(m|k|Mi|Gi)?", fullmatch=True)))
def test_quantities_are_written_as_they_were_read(amount: str | int) -> None:
    queue = objects.cluster_queue(resourceGroups=[objects.group(objects.quota(nominalQuota=amount))])
    assert type_of(queue).from_wire(queue).to_wire() == queue
