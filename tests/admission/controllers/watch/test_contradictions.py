"""Terms of pods that contradict what their Workload asks for hold it, with a reason that names them."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.watch.contradictions import contradiction
from admission.integrations.exclusive import EXCLUSIVE
from api.names import SLICE_REQUIRED_TOPOLOGY
from tests.builders import workload

FIELD = "spec.podSets[0].template.spec"


def of(spec: dict[str, Any], request: dict[str, Any] | None = None, *, implied: bool = False) -> Any:
    made = workload()
    [pod_set] = made.spec.pod_sets
    template = {**pod_set.template, "spec": {**pod_set.template["spec"], **spec}}
    wire = {**pod_set.to_wire(), "template": template, "topologyRequest": request}
    spec_of = made.spec.model_copy(update={"pod_sets": (type(pod_set).from_wire(wire),)})
    return contradiction(made.model_copy(update={"spec": spec_of}), lambda: implied)


@pytest.mark.parametrize(
    ("request_", "implied"),
    [
        pytest.param({"required": "rack"}, False, id="that the job requests"),
        pytest.param(None, True, id="that its queue implies"),
    ],
)
def test_a_named_node_contradicts_a_topology(request_: dict[str, Any] | None, implied: bool) -> None:
    reason, message = of({"nodeName": "n1"}, request_, implied=implied)
    assert reason == "Misconfigured"
    assert message.startswith(f"{FIELD}.nodeName: n1: the API server refuses")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeName": "n1"}, id="a-named-node-without-topology"),
        pytest.param({"resourceClaims": []}, id="no-claims"),
        pytest.param({"os": {"name": "linux"}}, id="os"),
        pytest.param({"schedulingGates": [{"name": "example.com/gate"}]}, id="gates-of-others"),
    ],
)
def test_what_keeps_no_pod_off_a_node_is_no_matter(spec: dict[str, Any]) -> None:
    assert of(spec) is None


@pytest.mark.parametrize("place", ["the job", "a pod template"])
@pytest.mark.parametrize("key", EXCLUSIVE)
def test_exclusive_topology_holds_a_workload_that_is_older_than_the_topology_of_its_queue(key: str, place: str) -> None:
    workload_ = workload()
    if place == "the job":
        meta = workload_.metadata.model_copy(update={"annotations": {key: "rack"}})
        workload_ = workload_.model_copy(update={"metadata": meta})
    else:
        [pod_set] = workload_.spec.pod_sets
        template = {**pod_set.template, "metadata": {"annotations": {key: "rack"}}}
        spec = workload_.spec.model_copy(update={"pod_sets": (pod_set.model_copy(update={"template": template}),)})
        workload_ = workload_.model_copy(update={"spec": spec})
    reason, message = contradiction(workload_, lambda: False, lambda: True) or ("", "")
    assert reason == "Misconfigured"
    assert message.startswith(f"annotation {key} is not supported with a topology")
    assert SLICE_REQUIRED_TOPOLOGY in message
    assert contradiction(workload_, lambda: False, lambda: False) is None
