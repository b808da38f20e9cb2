"""`kubectl stowage` by kubectl itself, which needs no cluster for it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from hack.controlplane.build import Tools


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["stowage", "version", "--client"], f"stowage: {version('stowage')}", id="runs a command"),
        pytest.param(["__complete", "stowage", "ex"], "explain", id="completes a command"),
        pytest.param(["__complete", "stowage", "explain", "--sn"], "--snapshot", id="completes an option"),
        pytest.param(["plugin", "list", "--name-only"], "kubectl-stowage", id="lists the plugin"),
    ],
)
def test_kubectl_has_the_plugin(control_plane_tools: Tools, words: list[str], message: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(tmp_path / "none")}
    command: list[str | Path] = [control_plane_tools.program("kubectl"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert message in done.stdout.splitlines(), done.stderr
