"""What the support bundle must not hold (20, 2). Each secret here contains the word CANARY, and no output does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.support.redaction import DEEPEST, REDACTED, redacted, text, value

JWT = "eyJhbGciOiJSUzI1NiJ9.CANARYeyJzdWIiOiJhIn0.CANARYc2ln"
POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "registry.example.com/train:1",
            "command": ["sh", "-c", "export X=CANARY"],
            "args": ["--key", "CANARY"],
            "env": [
                {"name": "WANDB", "value": "CANARY"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "CANARY", "key": "k"}}},
            ],
            "envFrom": [{"secretRef": {"name": "CANARY"}}],
            "livenessProbe": {"httpGet": {"path": "/CANARY", "httpHeaders": [{"name": "A", "value": "CANARY"}]}},
            "lifecycle": {"postStart": {"exec": {"command": ["CANARY"]}}},
            "resources": {"requests": {"cpu": "4"}},
        }
    ],
    "initContainers": [{"name": "init", "image": "i", "args": ["CANARY"]}],
    "ephemeralContainers": [{"name": "debug", "command": ["CANARY"]}],
    "volumes": [
        {"name": "a", "csi": {"volumeAttributes": {"x": "CANARY"}}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
    ],
    "nodeSelector": {"pool": "gpu"},
    "schedulerName": "default-scheduler",
}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OBJECTS: dict[str, dict[str, Any]] = {
    "a Workload": {
        "kind": "Workload",
        "metadata": {
            "name": "w",
            "annotations": {LAST_APPLIED: "CANARY", "example.com/notes": "CANARY", "kueue.x-k8s.io/x": "kept"},
            "managedFields": [{"manager": "CANARY"}],
        },
        "spec": {
            "podSets": [
                {
                    "name": "main",
                    "template": {"metadata": {"annotations": {"vault.example.com/token": "CANARY"}}, "spec": POD_SPEC},
                }
            ]
        },
    },
    "a Pod": {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": POD_SPEC,
        "status": {"message": "Bearer CANARYCANARY refused"},
    },
    "a Secret": {"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "CANARY"}, "stringData": {"k": "CANARY"}},
    "a ConfigMap": {
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"admission.yaml": "logLevel: INFO\npassword: CANARY\n", "other": "CANARY"},
        "binaryData": {"b": "CANARY"},
    },
    "a Deployment": {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": POD_SPEC}}},
    "a webhook": {"kind": "X", "metadata": {"name": "h"}, "webhooks": [{"clientConfig": {"caBundle": "CANARY"}}]},
    "a CRD": {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "c"},
        "spec": {"versions": [{"name": "v1", "schema": {"default": "CANARY"}}]},
    },
    "a Node": {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"addresses": ["CANARY"], "allocatable": {"cpu": "8"}},
    },
    "an Event": {"kind": "Event", "metadata": {"name": "e"}, "message": f"url https://u:CANARY@example.com {JWT}"},
    "a custom object": {
        "kind": "Train",
        "metadata": {"name": "t"},
        "spec": {"apiKey": "CANARY", "auth": {"access_key": "CANARY"}},
    },
    "metadata that is no map": {"kind": "Pod", "metadata": "CANARY"},
    "containers that are none": {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": ["CANARY", {"env": "CANARY"}]},
    },
}


@pytest.mark.parametrize("obj", OBJECTS.values(), ids=OBJECTS)
def test_no_secret_is_left(obj: dict[str, Any]) -> None:
    assert "CANARY" in json.dumps(obj)
    assert "CANARY" not in json.dumps(redacted(obj))


def test_what_helps_is_left() -> None:
    found = redacted(OBJECTS["a Workload"])
    template = found["spec"]["podSets"][0]["template"]["spec"]
    (container,) = template["containers"]
    assert container["image"] == "registry.example.com/train:1"
    assert container["resources"] == {"requests": {"cpu": "4"}}
    assert container["env"] == [{"name": "WANDB", "value": REDACTED}, {"name": "B", "value": REDACTED}]
    assert template["volumes"] == [{"name": "a"}, {"name": "b", "persistentVolumeClaim": {"claimName": "data"}}]
    assert template["nodeSelector"] == {"pool": "gpu"}
    assert found["metadata"]["annotations"]["kueue.x-k8s.io/x"] == "kept"
    assert redacted(OBJECTS["a ConfigMap"])["data"]["admission.yaml"].startswith("logLevel: INFO\n")


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {JWT}",
        f"token={JWT} and more",
        '{"level": "INFO", "password": "CANARY with blanks"}',
        "connect postgres://user:CANARY@db:5432/x failed",
        "AWS AKIACANARYCANARY12345 refused",
        "-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nCANARY",
        "git clone with ghp_CANARYCANARYCANARYCANARY",
        "HF_TOKEN: hf_CANARYCANARYCANARYCANARY",
        "client-key-data: CANARY==",
        "api_key='CANARY'",
        "password: correct CANARY battery",
        'password: "unclosed CANARY',
    ],
)
def test_tokens_are_taken_out_of_texts(line: str) -> None:
    assert "CANARY" not in text(line)


@pytest.mark.parametrize(
    "line",
    [
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor gpu, 4 more needed",
        "Node gpu-17 of rack r1: 3 of 8 pods fit",
        "https://example.com/path?x=1",
    ],
)
def test_other_texts_are_left_alone(line: str) -> None:
    assert text(line) == line


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just("CANARY"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz", max_size=6), inner, max_size=3),
    max_leaves=12,
)


@given(
    spec=st.dictionaries(st.text("abcxyz", max_size=6), JSON),
    container=st.dictionaries(st.text("abcxyz", max_size=6), JSON),
)
def test_no_field_of_a_pod_that_is_unknown_is_left(spec: dict[str, Any], container: dict[str, Any]) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {**spec, "containers": [container]}}
    assert "CANARY" not in json.dumps(redacted(pod))


@pytest.mark.parametrize(
    "part", ["a", "a.", "eyJ-", "token", "token ", "a+a", "://", "-----BEGIN ", "password: ", "sk-", "x://"]
)
def test_a_long_line_takes_no_longer_than_its_length(part: str) -> None:
    """A pattern that tries each beginning up to the end would take minutes."""
    assert text(part * (128 * 1024 // len(part)))


def test_depth_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(10 * DEEPEST):
        deep = {"a": deep}
    assert REDACTED in json.dumps(value(deep))
