"""`stowage version`, and the scripts by which kubectl runs and completes `kubectl stowage`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from admission.cli.main import app
from api.embedded.server import EmbeddedServer
from api.kube.client import Kube
from api.kube.resources import DEPLOYMENTS, NAMESPACES
from api.kube.settings import ClientSettings
from tests.admission.cli.test_endings import DEAD
from tests.builders import pod_template

OURS = {"app.kubernetes.io/name": "stowage"}


def test_the_version_of_the_command_needs_no_cluster() -> None:
    done = CliRunner().invoke(app, ["version", "--client"])
    assert (done.exit_code, done.output) == (0, f"stowage: {version('stowage')}\n")


def test_a_cluster_that_does_not_answer_is_told_after_the_version(tmp_path: Path) -> None:
    (tmp_path / "dead").write_text(DEAD)
    done = CliRunner().invoke(app, ["version", "--kubeconfig", str(tmp_path / "dead")])
    assert done.exit_code == 2
    assert done.stdout == f"stowage: {version('stowage')}\n"
    assert done.stderr.startswith("no version: the cluster does not answer")


@pytest.mark.stage
async def test_the_images_in_the_cluster_are_told(tmp_path: Path) -> None:
    async with EmbeddedServer() as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            template = {**pod_template(), "metadata": {"labels": OURS}}
            template["spec"]["containers"][0]["image"] = "registry.example.com/stowage:0.3.0"
            spec = {"selector": {"matchLabels": OURS}, "template": template}
            await kube.create(NAMESPACES, {"metadata": {"name": "stowage-system"}})
            metadata = {"name": "stowage-webhook", "namespace": "stowage-system", "labels": OURS}
            await kube.create(DEPLOYMENTS, {"metadata": metadata, "spec": spec})
        asked = [sys.executable, "-m", "admission.cli", "version", "--json", "--kubeconfig", str(kubeconfig)]
        process = await asyncio.create_subprocess_exec(*asked, stdout=subprocess.PIPE)
        found = json.loads((await process.communicate())[0])
    assert found["kubernetes"].startswith("v1.")
    assert found["stowage-system/stowage-webhook"] == "registry.example.com/stowage:0.3.0"


@pytest.mark.stage
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["ex"], ["explain", ":4"], id="a command"),
        pytest.param(["jobkind", "r"], ["rbac", ":4"], id="a subcommand"),
        pytest.param(["explain", "--sn"], ["--snapshot", ":4"], id="an option"),
        pytest.param(["snapshot", "x"], [":0"], id="a file"),
    ],
)
def test_kubectl_completes_words(words: list[str], expected: list[str]) -> None:
    (script,) = entry_points(group="console_scripts", name="kubectl_complete-stowage")
    module, _, function = script.value.partition(":")
    program = f"from {module} import {function}; {function}()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == expected
