"""What the controller keeps of pods, and what it says of those it cannot count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admission.controllers.held import PodReader
from admission.engine.model import BoundPod
from api.errors import InvalidObject
from api.kube.decode import DECODE_ERRORS, identity, undecodable
from tests.builders import pod_template


def wire(name: str = "p", *, node: str = "n", phase: str = "Running", cpu: str = "1") -> bytes:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "annotations": {"kueue.x-k8s.io/workload": "w"},
        "labels": {"kueue.x-k8s.io/podset": "main"},
    }
    spec = {**pod_template(cpu)["spec"], "nodeName": node}
    return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def test_a_bound_pod_is_kept_as_the_engine_takes_it() -> None:
    kept = PodReader()(wire())
    assert kept.bound == BoundPod("ns/p", "n", {"cpu": 1000}, "ns/w", "main")
    assert (identity(kept).key, identity(kept).uid, identity(kept).resource_version) == ("ns/p", "uid-p", "7")


@pytest.mark.parametrize("given", [wire(node=""), wire(phase="Succeeded")], ids=["unbound", "done"])
def test_of_a_pod_that_holds_no_node_only_the_name_is_kept(given: bytes) -> None:
    assert PodReader()(given).bound is None


def test_pods_of_one_shape_share_it() -> None:
    read = PodReader()
    one, other, larger = (read(given).bound for given in (wire("a"), wire("b"), wire("c", cpu="2")))
    assert one is not None
    assert other is not None
    assert one.requests is other.requests
    assert larger is not None
    assert larger.requests == {"cpu": 2000}


def test_a_pod_that_cannot_be_counted_is_left_out_by_name_and_field() -> None:
    given = wire(cpu="much")
    with pytest.raises(InvalidObject) as caught:
        PodReader()(given)
    assert isinstance(caught.value, DECODE_ERRORS)
    assert str(undecodable("Pod", given, caught.value)).startswith("Pod ns/p: spec: requests[cpu]: 'much'")
