"""Rights on the jobs of a declared kind, as an administrator gives them (docs/job-kinds.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from admission.cli.main import app
from hack.controlplane.api import eventually
from hack.controlplane.cluster import ControlPlane

KIND = Path(__file__).resolve().parents[2] / "config" / "samples" / "job-kind.yaml"


def job_kind_roles(cluster: ControlPlane) -> Callable[[], None]:
    """Gives the processes rights on jobs of a declared kind. Returns what takes them away again.

    Both wait until the API server has aggregated the roles.
    """
    printed = CliRunner().invoke(app, ["jobkind", "rbac", str(KIND)])
    assert printed.exit_code == 0, printed.output

    def have_rules() -> set[bool]:
        roles = [f"stowage-{process}-job-kinds" for process in ("controller", "webhook")]
        found = [json.loads(cluster.kubectl("get", "clusterrole", role, "-o", "json")) for role in roles]
        return {bool(role.get("rules")) for role in found}

    def end() -> None:
        cluster.kubectl("delete", "-f", "-", stdin=printed.output)
        eventually("the roles are empty", lambda: have_rules() == {False})

    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=printed.output)
    eventually("the roles are aggregated", lambda: have_rules() == {True})
    return end
