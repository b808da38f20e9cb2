"""The command for an invalid setting takes that one out, and leaves all others and their comments."""

from __future__ import annotations

import copy
import json
import shlex
from typing import Any

import pytest
import yaml

from admission.doctor.checks import ALL
from admission.doctor.finding import Finding
from admission.doctor.mended_settings import without
from admission.doctor.report import examined
from admission.doctor.view import CONTROLLER, name_of
from api.kube import resources as kinds
from tests.admission.doctor import healthy
from tests.admission.doctor.healthy import OURS, Obj

FILE = """\
# ours
logLevel: INFO
placement:
  counting: Nodes  # of hosts
  # the budget
  exactBudget: 7
lease: {duration: 20, renewDeadline: 12}
featureGates:
  TopologyAwareScheduling: true
"""
VALID_OTHERS = yaml.safe_load(FILE)


def objects(text: str, variables: dict[str, str] | None = None) -> dict[kinds.Resource, list[Obj]]:
    found = healthy.objects()
    config = found[kinds.CONFIG_MAPS][0]
    config["data"]["admission.yaml"] = text
    config["metadata"]["resourceVersion"] = "7"
    for deployment in found[kinds.DEPLOYMENTS]:
        if name_of(deployment) == CONTROLLER:
            env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
            env.extend({"name": name, "value": value} for name, value in (variables or {}).items())
    return found


def finding(objects: dict[kinds.Resource, list[Obj]]) -> Finding | None:
    some = [each for _, each in examined(healthy.view(copy.deepcopy(objects)), ALL).findings]
    if not some:
        return None
    ((one,),) = some
    return one


def run(command: str, objects: dict[kinds.Resource, list[Obj]]) -> None:
    """Does what kubectl does: patches the ConfigMap, and takes variables out of the Deployments."""
    for each in command.split(" && "):
        words = shlex.split(each)
        assert words[:3] == ["kubectl", "-n", OURS]
        if words[3] == "patch":
            body = json.loads(words[-1])
            assert body["metadata"]["resourceVersion"] == "7", (
                "it fails where another one has edited the settings since"
            )
            objects[kinds.CONFIG_MAPS][0]["data"].update(body["data"])
        elif words[3:5] == ["set", "env"]:
            gone = [word.removesuffix("-") for word in words[5:] if not word.startswith("deployment/")]
            for deployment in objects[kinds.DEPLOYMENTS]:
                for container in deployment["spec"]["template"]["spec"]["containers"]:
                    container["env"] = [one for one in container["env"] if one["name"] not in gone]
        else:
            assert words[3:5] == ["rollout", "restart"]


def changed(old: str, new: str) -> str:
    assert old in FILE
    return FILE.replace(old, new)


CASES: dict[str, tuple[str, dict[str, str], str, str]] = {
    "an unknown key": (f"{FILE}nosuch: 1\n", {}, "settings nosuch", "no such setting"),
    "one of Kueue's": (f"{FILE}health: {{healthProbeBindAddress: ':1'}}\n", {}, "settings health", "healthHost"),
    "an unknown key of a section": (
        changed("  exactBudget: 7", "  exactBudget: 7\n  nosuch: 1"),
        {},
        "settings placement.nosuch",
        "no such setting",
    ),
    "a value of another kind": (
        changed("duration: 20", "duration: 20, retryPeriod: soon"),
        {},
        "settings lease.retryPeriod",
        "valid number",
    ),
    "two values": (
        changed("duration: 20", "nosuch: 2, duration: 20") + "clusters: 3\n",
        {},
        "settings lease.nosuch, clusters",
        "no such setting",
    ),
    "a section with nothing else": (f"{FILE}controller:\n  jobWorkers: 0\n", {}, "settings controller.jobWorkers", "1"),
    "a variable": (
        FILE,
        {"STOWAGE_CONTROLLER__JOB_WORKERS": "many"},
        "settings controller.jobWorkers",
        "valid integer",
    ),
    "a variable and a key": (
        f"{FILE}nosuch: 1\n",
        {"STOWAGE_CONTROLLER__JOB_WORKERS": "0"},
        "settings",
        "no such setting",
    ),
}


@pytest.mark.parametrize(("text", "variables", "named", "allowed"), CASES.values(), ids=CASES)
def test_the_command_mends_just_this(text: str, variables: dict[str, str], named: str, allowed: str) -> None:
    found = objects(text, {"STOWAGE_LOG_JSON": "true", **variables})
    wrong = finding(found)
    assert wrong is not None
    assert wrong.object.startswith(named)
    assert allowed in wrong.what
    run(wrong.command, found)
    assert finding(found) is None
    assert found[kinds.CONFIG_MAPS][0]["data"]["admission.yaml"] == FILE
    (controller,) = (one for one in found[kinds.DEPLOYMENTS] if name_of(one) == CONTROLLER)
    env = controller["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "STOWAGE_LOG_JSON" in [one["name"] for one in env]
    assert "STOWAGE_CONFIG" in [one["name"] for one in env]


def test_a_value_that_replaced_a_valid_one_gives_way_to_the_default() -> None:
    found = objects(changed("counting: Nodes  # of hosts", "counting: Pairs"))
    wrong = finding(found)
    assert wrong is not None
    assert "'Pairs': Input should be 'Nodes'" in wrong.what
    run(wrong.command, found)
    assert finding(found) is None
    text = found[kinds.CONFIG_MAPS][0]["data"]["admission.yaml"]
    assert yaml.safe_load(text) == {**VALID_OTHERS, "placement": {"exactBudget": 7}}
    assert "# ours" in text


@pytest.mark.parametrize(
    ("text", "variables", "words"),
    [
        ("{", {}, "# correct admission.yaml: kubectl -n stowage-system edit configmap stowage-config-1; then kubectl"),
        ("- a", {}, "# correct admission.yaml: "),
        (
            FILE,
            {"STOWAGE_FEATURE_GATES": '{"Nosuch": true}'},
            "# correct the value: kubectl -n stowage-system set env deployment/stowage-webhook deployment/stowage-controller "
            "'STOWAGE_FEATURE_GATES=",
        ),
        (FILE, {"STOWAGE_FEATURE_GATES": "{"}, "kubectl -n stowage-system set env"),
    ],
)
def test_what_a_person_must_say_is_a_remark(text: str, variables: dict[str, str], words: str) -> None:
    wrong = finding(objects(text, variables))
    assert wrong is not None
    assert wrong.command.startswith(words)


@pytest.mark.parametrize(
    ("text", "path", "left"),
    [
        ("a: 1\nb: 2\n", ("a",), "b: 2\n"),
        ("a: 1\nb: |\n  x\n  # y\nc: 3\n", ("b",), "a: 1\n  # y\nc: 3\n"),
        ("a:\n  b: 1\n# of c\nc: 3\n", ("a", "b"), "# of c\nc: 3\n"),
        ("{a: 1, b: 2}", ("b",), "{a: 1}"),
        ("{a: {b: 1}, c: 2}", ("a", "b"), "{c: 2}"),
        ("a:\n- x: 1\n  y: 2\nb: 1", ("a",), "b: 1"),
        ("a: 1\nb:\n  c: 1\n  d: 2", ("b", "d"), "a: 1\nb:\n  c: 1\n"),
        ("a: 1\na: 2\n", ("a",), None),
        ("a: &x 1\nb: *x\n", ("a",), None),
        ("a: [1, 2]\n", ("a", 0), None),
        ("a: 1\n", ("b",), None),
        ("a: 1\n", (), None),
    ],
)
def test_a_key_is_taken_out_of_the_text(text: str, path: tuple[Any, ...], left: str | None) -> None:
    assert without(text, [path]) == left
