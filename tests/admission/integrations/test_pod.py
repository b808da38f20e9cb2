"""What is read of a plain pod: which role it plays, whose it is, where it is in its life."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from admission.integrations.pods.pod import QueuedPodReader, role_hash
from api import names
from tests.admission.integrations.pods import read, wire

SPEC: dict[str, Any] = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(
            {"containers": [{**SPEC["containers"][0], "image": "y", "command": ["z"]}]}, id="image and command"
        ),
        pytest.param({"volumes": [{"name": "v"}]}, id="volumes"),
        pytest.param({"schedulingGates": [{"name": "g"}], "nodeName": "n"}, id="gates and node"),
        pytest.param({"priorityClassName": "high", "restartPolicy": "Never"}, id="names of classes"),
    ],
)
def test_what_does_not_matter_for_the_place_leaves_the_role(changed: dict[str, Any]) -> None:
    assert role_hash({**SPEC, **changed}) == role_hash(SPEC) == "dc85db45"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"containers": [{"resources": {"requests": {"cpu": "2"}}}]}, id="requests"),
        pytest.param({"containers": [{**SPEC["containers"][0], "ports": [{"containerPort": 80}]}]}, id="ports"),
        pytest.param({"initContainers": SPEC["containers"]}, id="init containers"),
        pytest.param({"nodeSelector": {"a": "b"}}, id="node selector"),
        pytest.param({"tolerations": [{"key": "a"}]}, id="tolerations"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, id="affinity"),
        pytest.param({"priority": 5}, id="priority"),
        pytest.param({"overhead": {"cpu": "1"}}, id="overhead"),
        pytest.param({"resources": {"requests": {"cpu": "9"}}}, id="requests of the pod"),
    ],
)
def test_what_decides_about_the_place_makes_another_role(changed: dict[str, Any]) -> None:
    assert role_hash({**SPEC, **changed}) != role_hash(SPEC)


EMPTY = (
    '{"spec":{"affinity":%s,"containers":[{"ports":null,"resources":{"requests":%s}}],"initContainers":null,'
    '"nodeSelector":null,"overhead":null,"priority":null,"resourceClaims":null,"runtimeClassName":null,'
    '"tolerations":null,"topologySpreadConstraints":null}}'
)
HOST = {"key": "host", "operator": "In", "values": ["<a&b>"]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [HOST]}}}


@pytest.mark.parametrize(
    ("spec", "hashed"),
    [
        pytest.param({"containers": [{"name": "c"}]}, EMPTY % ("null", "null"), id="no resources"),
        pytest.param({"containers": [{"resources": {}}]}, EMPTY % ("null", "null"), id="no requests"),
        pytest.param(
            {"containers": [{}], "affinity": {}}, EMPTY % ("{}", "null"), id="an empty affinity, which it stores"
        ),
        pytest.param(
            {"containers": [{}], "affinity": AFFINITY},
            EMPTY
            % (
                '{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":'
                '[{"key":"host","operator":"In","values":["\\u003ca\\u0026b\\u003e"]}]}}}',
                "null",
            ),
            id="characters that Go escapes",
        ),
        pytest.param(
            {"containers": [{}], "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi", "cpu": "1"}}},
            (EMPTY % ("null", "null")).replace(
                '"runtimeClassName"', '"resources":{"cpu":"1","memory":"1Gi"},"runtimeClassName"'
            ),
            id="requests of the pod",
        ),
        pytest.param(
            {"containers": [{}], "resources": {}},
            (EMPTY % ("null", "null")).replace('"runtimeClassName"', '"resources":null,"runtimeClassName"'),
            id="resources of the pod without requests",
        ),
    ],
)
def test_the_role_is_the_hash_of_what_kueue_hashes(spec: dict[str, Any], hashed: str) -> None:
    """tests/e2e/test_kueue.py compares with Kueue itself."""
    assert role_hash(spec) == hashlib.sha256(hashed.encode()).hexdigest()[:8]


def test_the_order_of_a_maps_keys_makes_no_other_role() -> None:
    one = {**SPEC, "nodeSelector": {"a": "1", "b": "2"}}
    other = {**SPEC, "nodeSelector": {"b": "2", "a": "1"}}
    assert role_hash(one) == role_hash(other)


def test_the_role_that_the_webhook_wrote_down_holds() -> None:
    assert read(wire("p", annotations={names.ROLE_HASH: "12345678"})).role == "12345678"


@pytest.mark.parametrize(
    ("labels", "annotations", "ours"),
    [
        pytest.param({names.MANAGED_LABEL: "true"}, {}, True, id="marked by the webhook"),
        pytest.param({}, {}, False, id="a job's pod, or from before we came"),
        pytest.param({}, {names.POD_SUSPENDING_PARENT: "deployment"}, True, id="of a Deployment"),
    ],
)
def test_whose_pod_it_is(labels: dict[str, str], annotations: dict[str, str], ours: bool) -> None:
    pod = wire("p", annotations=annotations)
    pod["metadata"]["labels"] = {names.QUEUE_NAME_LABEL: "q", **labels}
    assert read(pod).ours is ours


def test_only_of_a_gated_pod_the_spec_is_kept_and_pods_of_one_maker_share_it() -> None:
    reader = QueuedPodReader()
    volumes = [[{"name": f"kube-api-access-{end}"}] for end in ("abcde", "f2345")]
    one, other = (reader(msgspec.json.encode(wire("p", volumes=v))) for v in volumes)
    assert one.spec is not None
    assert one.spec is other.spec
    assert read(wire("p", gated=False)).spec is None


def test_strangers_labels_and_annotations_are_not_kept() -> None:
    pod = read(wire("p", labels={"app": "x"}, annotations={"provreq.kueue.x-k8s.io/a": "b", "note": "y" * 999}))
    assert "app" not in pod.labels
    assert pod.annotations == {"provreq.kueue.x-k8s.io/a": "b"}


@pytest.mark.parametrize(
    ("changes", "counts", "running"),
    [
        pytest.param({}, True, False, id="gated"),
        pytest.param({"gated": False, "node": "n", "phase": "Running"}, True, True, id="runs"),
        pytest.param({"gated": False, "phase": "Succeeded", "node": "n"}, True, False, id="has succeeded"),
        pytest.param({"gated": False, "phase": "Failed", "node": "n"}, False, False, id="has failed"),
        pytest.param({"deleted": True}, False, False, id="goes, gated"),
        pytest.param({"gated": False, "deleted": True}, False, False, id="goes, on no node"),
        pytest.param(
            {"gated": False, "deleted": True, "node": "n", "phase": "Running"}, True, True, id="goes, still runs"
        ),
    ],
)
def test_whether_a_pod_counts_and_takes_up_a_node(changes: dict[str, Any], counts: bool, running: bool) -> None:
    pod = read(wire("p", **changes))
    assert (pod.counts, pod.running) == (counts, running)


def test_a_pod_that_was_forced_to_go_takes_up_no_node() -> None:
    pod = wire("p", gated=False, deleted=True, node="n", phase="Running")
    pod["metadata"]["deletionGracePeriodSeconds"] = 0
    assert not read(pod).running
