"""What we count for a template is what the API server stores for its pods, by kube-scheduler's sum.

Pods are drawn by a seed, created on the real API server and read again. `_scheduled` is the sum as kube-scheduler takes it of a
stored pod (`PodRequests` in component-helpers), with exact fractions; it shares no code with the product.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
import pytest

from admission.controllers.watch.resources import Limit, completed, defect
from admission.controllers.watch.runtime_classes import RuntimeClass
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec
from api.text.quantity import parse
from api.workloads import PodSet, Workload, WorkloadSpec
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.errors import RequestError
from hack.controlplane.options import ClusterOptions

CONTROL_PLANE = ClusterOptions(kwok=False, scheduler=False, controller_manager=False)

NAMESPACES: Final[Mapping[str, list[dict[str, Any]]]] = {
    "free": [],
    "defaults": [
        {
            "type": "Container",
            "default": {"cpu": "2", "memory": "1500m", "example.com/gpu": "1"},
            "defaultRequest": {"cpu": "500m", "example.com/gpu": "1"},
        }
    ],
    "bounds": [{"type": "Container", "max": {"cpu": "64", "memory": "64Gi"}, "min": {"cpu": "0"}}],
}
CPUS = ("0", "1", "100m", "1500m", "2", 1, "1e-1")
LITTLE = (*CPUS, "0.0004")
"""Less than a thousandth is rounded up, in containers after the API server has added them up for the pod's own request."""
MEMORY = ("0", "500m", "1500m", "1Gi", "128Mi", "1e6", "1M", 1024)
HUGE = ("0", "2Mi", "4Mi", "64Mi")
GPUS = ("0", "1", "2")


def _resources(draw: random.Random, cpus: Sequence[str | int]) -> dict[str, Any]:
    """Requests, limits, both or none; what cannot be shared has the same in both."""
    found: dict[str, dict[str, Any]] = {"requests": {}, "limits": {}}
    for name, amounts in (("cpu", cpus), ("memory", MEMORY)):
        low, high = sorted((draw.choice(amounts), draw.choice(amounts)), key=parse)
        for field, amount, odds in (("requests", low, 0.5), ("limits", high, 0.4)):
            if draw.random() < odds:
                found[field][name] = amount
    for name, values, odds in (("hugepages-2Mi", HUGE, 0.15), ("example.com/gpu", GPUS, 0.2)):
        if draw.random() < odds:
            amount = draw.choice(values)
            found["limits"][name] = amount
            if draw.random() < 0.5:
                found["requests"][name] = amount
    if "hugepages-2Mi" in found["limits"]:
        found["requests"].setdefault("memory", "0")
    return {field: amounts for field, amounts in found.items() if amounts}


def _containers(draw: random.Random, kind: str, cpus: Sequence[str | int]) -> list[dict[str, Any]]:
    found = []
    for number in range(draw.randint(0 if kind == "init" else 1, 3)):
        container: dict[str, Any] = {"name": f"{kind}-{number}", "image": "registry.example/x"}
        if resources := _resources(draw, cpus):
            container["resources"] = resources
        if kind == "init" and draw.random() < 0.5:
            container["restartPolicy"] = "Always"
        found.append(container)
    return found


def _pod_level(draw: random.Random) -> dict[str, Any]:
    """Room for all containers, of some resources, in requests, limits or both."""
    found: dict[str, dict[str, Any]] = {}
    for name, amount in (("cpu", "40"), ("memory", "40Gi"), ("hugepages-2Mi", "640Mi")):
        form = draw.choice(("", "", "limits", "limits", "requests", "both"))
        if name.startswith("hugepages") and form == "requests":
            form = "both"
        for field in {"both": ("requests", "limits")}.get(form, (form,) if form else ()):
            found.setdefault(field, {})[name] = amount
    return found


def _spec(draw: random.Random) -> dict[str, Any]:
    level = _pod_level(draw) if draw.random() < 0.4 else {}
    cpus = CPUS if level else LITTLE
    spec: dict[str, Any] = {
        "containers": _containers(draw, "main", cpus),
        "schedulingGates": [{"name": "example.com/stay"}],
    }
    if init := _containers(draw, "init", cpus):
        spec["initContainers"] = init
    if level:
        spec["resources"] = level
    if draw.random() < 0.25:
        spec["runtimeClassName"] = "heavy"
    return spec


Sums = dict[str, Fraction]


def _scheduled(spec: Mapping[str, Any]) -> dict[str, int]:
    """Returns what kube-scheduler counts for a stored pod: cpu in thousandths, whole units otherwise."""

    def requests(of: Mapping[str, Any]) -> Sums:
        return {name: parse(text) for name, text in ((of.get("resources") or {}).get("requests") or {}).items()}

    def plus(*parts: Sums) -> Sums:
        return {
            name: sum((part.get(name, Fraction(0)) for part in parts), Fraction(0)) for part in parts for name in part
        }

    def larger(sums: Sums, other: Sums) -> Sums:
        return {name: max(sums.get(name, Fraction(0)), other.get(name, Fraction(0))) for name in sums | other}

    total = plus(*(requests(each) for each in spec["containers"]))
    sidecars: Sums = {}
    peak: Sums = {}
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            total, sidecars = plus(total, requests(container)), plus(sidecars, requests(container))
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, plus(sidecars, requests(container)))
    total = larger(total, peak) | requests(spec)
    total = plus(total, {name: parse(text) for name, text in spec.get("overhead", {}).items()})
    return {name: -int(-amount * (1000 if name == "cpu" else 1) // 1) for name, amount in total.items()}


@pytest.fixture(scope="module")
def heavy(cluster: ControlPlane) -> Mapping[str, RuntimeClass]:
    """A RuntimeClass whose pods need more, and the namespaces with their LimitRanges."""
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "heavy"},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    }
    cluster.api.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    for name, limits in NAMESPACES.items():
        cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        if limits:
            body = {"metadata": {"name": "limits"}, "spec": {"limits": limits}}
            cluster.api.create(f"/api/v1/namespaces/{name}/limitranges", body)
    return {"heavy": msgspec.convert(runtime, RuntimeClass)}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_requests_are_counted_as_the_api_server_defaults_them(
    cluster: ControlPlane, heavy: Mapping[str, RuntimeClass], namespace: str
) -> None:
    limits = [msgspec.convert(limit, Limit) for limit in NAMESPACES[namespace]]
    draw, compared = random.Random(f"requests {namespace}"), 0
    for number in range(150):
        spec = _spec(draw)
        workload = Workload(spec=WorkloadSpec(pod_sets=(PodSet(name="main", count=1, template={"spec": spec}),)))
        workload = completed(workload, limits, heavy)
        pod, refusal = {"metadata": {"name": f"p{number}"}, "spec": spec}, None
        stored: dict[str, Any] = {}
        try:
            stored = cluster.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)["spec"]
        except RequestError as error:
            refusal = str(error)
        assert (defect(workload, limits) is None) == (refusal is None), (refusal, spec)
        if refusal is not None:
            continue
        wanted = _scheduled(stored)
        assert effective_requests(pod_spec({"spec": stored})) == wanted, spec
        assert effective_requests(pod_spec(workload.spec.pod_sets[0].template)) == wanted, spec
        compared += 1
    assert compared >= 50
