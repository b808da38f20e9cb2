"""The effective requests of a pod, by kube-scheduler's rule."""

from __future__ import annotations

from typing import Any

import pytest

from api.errors import InvalidQuantity
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec
from api.text.quantity import Resources


def container(cpu: str | None = None, *, memory: str | None = None, limit: str | None = None, **more: Any) -> Any:
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    resources = {"requests": requests} | ({"limits": {"cpu": limit}} if limit else {})
    return {"name": "c", "image": "i", "resources": resources, **more}


def sidecar(cpu: str) -> Any:
    return container(cpu, restartPolicy="Always")


CASES: list[Any] = [
    pytest.param({}, {}, id="nothing"),
    pytest.param(
        {"containers": [container("1"), container("500m", memory="1Gi")]}, {"cpu": 1500, "memory": 2**30}, id="sum"
    ),
    pytest.param({"containers": [container(limit="2")]}, {"cpu": 2000}, id="limit for a missing request"),
    pytest.param({"containers": [container("1", limit="2")]}, {"cpu": 1000}, id="request beside a limit"),
    pytest.param(
        {"containers": [container("1")], "initContainers": [container("3")]}, {"cpu": 3000}, id="init container larger"
    ),
    pytest.param(
        {"containers": [container("2"), container("2")], "initContainers": [container("3"), container("1")]},
        {"cpu": 4000},
        id="init containers one after the other",
    ),
    pytest.param(
        {"containers": [container("1")], "initContainers": [sidecar("1"), sidecar("2")]},
        {"cpu": 4000},
        id="sidecars run on",
    ),
    pytest.param(
        {"containers": [container("1")], "initContainers": [sidecar("2"), container("3")]},
        {"cpu": 5000},
        id="init beside the sidecar before it",
    ),
    pytest.param(
        {"containers": [container("1")], "initContainers": [container("3"), sidecar("2")]},
        {"cpu": 3000},
        id="init before the sidecar",
    ),
    pytest.param(
        {"containers": [container("1", memory="1Ki")], "initContainers": [container("500m", memory="4Ki")]},
        {"cpu": 1000, "memory": 4096},
        id="each resource by itself",
    ),
    pytest.param(
        {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Mi"}},
        {"cpu": 1250, "memory": 2**20},
        id="overhead",
    ),
    pytest.param(
        {"containers": [container("1"), container("1", memory="1Ki")], "resources": {"requests": {"cpu": "3"}}},
        {"cpu": 3000, "memory": 1024},
        id="pod level wins where it is set",
    ),
    pytest.param(
        {
            "containers": [container(memory="1Ki")],
            "resources": {"limits": {"cpu": "3"}},
            "overhead": {"cpu": "1"},
        },
        {"cpu": 4000, "memory": 1024},
        id="pod level limit as request of what no container requests, then overhead",
    ),
    pytest.param(
        {"containers": [container("1"), container(limit="2")], "resources": {"limits": {"cpu": "8"}}},
        {"cpu": 3000},
        id="requests of containers below a pod level limit",
    ),
    pytest.param(
        {"containers": [container("0")], "resources": {"limits": {"cpu": "8"}}},
        {"cpu": 0},
        id="a request of zero below a pod level limit",
    ),
    pytest.param(
        {
            "containers": [{"name": "c", "resources": {"limits": {"hugepages-2Mi": "2Mi"}}}],
            "resources": {"limits": {"hugepages-2Mi": "8Mi"}},
        },
        {"hugepages-2Mi": 8 * 2**20},
        id="huge pages of the pod",
    ),
    pytest.param(
        {"containers": [container(memory="1500m"), container(memory="500m")]}, {"memory": 2}, id="the sum is rounded"
    ),
    pytest.param({"containers": [{"name": "c", "resources": {"requests": {"cpu": 2}}}]}, {"cpu": 2000}, id="number"),
]


@pytest.mark.parametrize(("spec", "want"), CASES)
def test_effective_requests(spec: dict[str, Any], want: Resources) -> None:
    assert effective_requests(pod_spec({"spec": spec})) == want


def test_a_bad_quantity_is_named() -> None:
    spec = pod_spec({"spec": {"containers": [container("one")]}})
    with pytest.raises(InvalidQuantity, match=r"requests\[cpu\]: 'one'"):
        effective_requests(spec)


def test_a_template_without_spec_is_an_empty_pod() -> None:
    assert effective_requests(pod_spec({})) == {}
