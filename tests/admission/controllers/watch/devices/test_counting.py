"""Whole devices of a node by kind, and what a claim's template asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admission.controllers.watch.devices.requests import CannotCount, DeviceKind, kinds_of
from admission.controllers.watch.devices.slices import counted
from api.pod.devices import DeviceClass, ResourceClaimTemplate, ResourceSlice

DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", *selectors: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}} for text in selectors]}}


def template(name: str = "one", *, constraints: Any = (), **request: Any) -> dict[str, Any]:
    requests = (
        [{"name": "r", "exactly": {"deviceClassName": "gpu", **request}}] if "firstAvailable" not in request else []
    )
    if not requests:
        requests = [{"name": "r", **request}]
    devices = {"requests": requests, "constraints": list(constraints)}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"spec": {"devices": devices}}}


def device(name: str, model: str = "a100", **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": model}, "example.com/numa": {"int": 0}}, **more}


def node_slice(node: str, *devices: dict[str, Any], pool: int = 1, of: int = 1, name: str = "") -> dict[str, Any]:
    where = {"name": node, "generation": pool, "resourceSliceCount": of}
    spec = {"driver": DRIVER, "nodeName": node, "pool": where, "devices": list(devices)}
    return {"metadata": {"name": name or f"{node}-gpus"}, "spec": spec}


IS_GPU = f'device.driver == "{DRIVER}"'
IS_H100 = f'device.attributes["{DRIVER}"].model == "h100"'
GPU, H100 = DeviceKind("gpu"), DeviceKind("gpu", (IS_H100,))
TAINT = {"key": "k", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("slices", "gpus", "h100"),
    [
        pytest.param([node_slice("n", device("0"), device("1", "h100"))], 2, 1, id="by-attribute"),
        pytest.param([node_slice("n", device("0", taints=[TAINT]), device("1"))], 1, 0, id="tainted"),
        pytest.param([node_slice("n", device("0", consumesCounters=[{}]))], 0, 0, id="parts-of-devices"),
        pytest.param([node_slice("n", device("0", allowMultipleAllocations=True))], 0, 0, id="shared-devices"),
        pytest.param([node_slice("n", device("0"), of=2)], 0, 0, id="a-slice-is-missing"),
        pytest.param(
            [node_slice("n", device("0"), of=2), node_slice("n", device("1"), of=2, name="b")], 2, 0, id="two-slices"
        ),
        pytest.param(
            [node_slice("n", device("0"), device("1")), node_slice("n", device("0"), pool=2, name="b")], 1, 0,
            id="the-newest-generation",
        ),
        pytest.param([node_slice("n", {"name": "0"})], 1, 0, id="without-the-attribute"),
    ],
)  # fmt: skip
def test_devices_of_a_node(slices: list[Any], gpus: int, h100: int) -> None:
    classes = {"gpu": msgspec.convert(device_class("gpu", IS_GPU), DeviceClass)}
    found, shared = counted([msgspec.convert(each, ResourceSlice) for each in slices], [GPU, H100], classes)
    assert (found[GPU], found[H100]) == (gpus, h100)
    assert shared == ({frozenset((GPU, H100))} if h100 else set())


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        pytest.param(template(), {GPU: 1}, id="one"),
        pytest.param(template(count=4), {GPU: 4}, id="several"),
        pytest.param(template(selectors=[{"cel": {"expression": IS_H100}}]), {H100: 1}, id="with-a-selector"),
    ],
)
def test_what_a_template_asks_for(value: dict[str, Any], kinds: dict[DeviceKind, int]) -> None:
    classes = {"gpu": msgspec.convert(device_class(), DeviceClass)}
    assert kinds_of(msgspec.convert(value, ResourceClaimTemplate), classes) == kinds


@pytest.mark.parametrize(
    ("value", "reason", "says"),
    [
        pytest.param(template(allocationMode="All"), "UnsupportedPodTerms", "only whole devices by number", id="all"),
        pytest.param(template(adminAccess=True), "UnsupportedPodTerms", "only whole devices by number", id="admin"),
        pytest.param(template(capacity={"requests": {}}), "UnsupportedPodTerms", "only whole devices", id="capacity"),
        pytest.param(template(firstAvailable=[{"name": "x"}]), "UnsupportedPodTerms", "alternatives", id="alternatives"),
        pytest.param(template(constraints=[{}]), "UnsupportedPodTerms", "constraints between devices", id="constraints"),
        pytest.param(
            template(selectors=[{"cel": {"expression": "device.capacity["}}]), "UnsupportedPodTerms", "is not understood",
            id="selector",
        ),
        pytest.param(
            template(deviceClassName="tpu"), "WaitingForObjects", "waits for DeviceClass tpu to be created", id="class"
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_named(value: dict[str, Any], reason: str, says: str) -> None:
    classes = {"gpu": msgspec.convert(device_class(), DeviceClass)}
    with pytest.raises(CannotCount) as why:
        kinds_of(msgspec.convert(value, ResourceClaimTemplate), classes)
    assert why.value.reason == reason
    assert why.value.message.startswith("ResourceClaimTemplate one: ")
    assert says in why.value.message
