"""What the ungater keeps of nodes and pods, of which there may be 100,000 each."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from api.names import HOSTNAME_LABEL, TOPOLOGY_GATE
from api.pod.pods import GatedPod, Node, Pod
from ungater.named import Host

CONDITIONS = [
    {"type": f"Condition{number}", "status": "True", "reason": "Because", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for number in range(5)
]


def node(number: int) -> dict[str, Any]:
    labels = {HOSTNAME_LABEL: f"host-{number}", "topology.kubernetes.io/zone": "z", "rack": f"r{number}"}
    status = {"allocatable": {"cpu": "96", "memory": "1Ti", "pods": "110"}, "conditions": CONDITIONS}
    meta = {"name": f"node-{number}", "uid": f"uid-{number}", "resourceVersion": str(number), "labels": labels}
    return {"metadata": meta, "status": status}


def pod(number: int) -> dict[str, Any]:
    meta = {"name": f"pod-{number}", "namespace": "team", "uid": f"uid-{number}", "labels": {"a": "b"}}
    requests = {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}
    spec = {
        "containers": [{"name": "main", "resources": {"requests": requests, "limits": requests}}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "schedulingGates": [{"name": TOPOLOGY_GATE}],
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending", "conditions": CONDITIONS}}


def size(decoded: type[Any], make: Callable[[int], dict[str, Any]]) -> int:
    texts, decode = [json.dumps(make(number)).encode() for number in range(200)], msgspec.json.Decoder(decoded).decode
    tracemalloc.start()
    try:
        kept = [decode(text) for text in texts]
        return tracemalloc.get_traced_memory()[0] // len(kept)
    finally:
        tracemalloc.stop()


def test_a_node_is_its_name_and_its_hostname() -> None:
    host = msgspec.json.decode(json.dumps(node(7)), type=Host)
    assert (host.metadata.name, host.metadata.uid, host.metadata.resource_version) == ("node-7", "uid-7", "7")
    assert host.hostname == "host-7"
    assert msgspec.json.decode(b'{"metadata": {"name": "n"}}', type=Host).hostname == ""


@pytest.mark.parametrize(
    ("small", "whole", "make", "share"), [(Host, Node, node, 0.25), (GatedPod, Pod, pod, 0.5)], ids=["node", "pod"]
)
def test_what_is_not_read_takes_no_memory(
    small: type[Any], whole: type[Any], make: Callable[[int], dict[str, Any]], share: float
) -> None:
    assert size(small, make) < share * size(whole, make)
