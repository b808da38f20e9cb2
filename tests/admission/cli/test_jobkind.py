"""`stowage jobkind`: what a JobKind reads of a sample, and the rights of its jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from admission.cli.main import app
from tests.admission.integrations.test_job_kind_errors import GOOD, SCALED, changed, crane

IS = {"apiVersion": "example.com/v1", "kind": "Crane"}


def of_crew(**pod: object) -> dict[str, object]:
    """A Crane of one crew with that pod template."""
    return crane(teams=[{"name": "north", "shifts": 1, "crews": [{"name": "lift", "pod": pod}]}])


def files(tmp_path: Path, kind: object, sample: object) -> list[str]:
    found = tmp_path / "kind.yaml", tmp_path / "sample.yaml"
    for file, content in zip(found, (kind, sample), strict=True):
        file.write_text(yaml.safe_dump(content))
    return [str(file) for file in found]


def test_pod_sets_requests_and_patches_of_a_sample_are_printed(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["jobkind", "test", *files(tmp_path, GOOD, {**IS, **crane()})])
    assert result.exit_code == 0, result.output
    said = yaml.safe_load(result.output)
    assert [(one["name"], one["count"], one["requests"]) for one in said["podSets"]] == [
        ("north-lift", 12, {"cpu": "1"}),
        ("north-load", 6, {"cpu": "1"}),
    ]
    assert said["state"]["suspended"] is True
    assert said["start"]["spec"]["state"] == "Working"
    assert said["stop"] == {"spec": {"state": "Parked"}}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"selector": "herd=a,tier in (x, y)"}, ["herd", "tier"]),
        ({}, None),
    ],
)
def test_of_a_scaled_kind_its_group_is_printed(tmp_path: Path, status: object, message: list[str] | None) -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    sample = {**IS, "metadata": {"name": "c"}, "spec": {"replicas": 3, "template": template}, "status": status}
    result = CliRunner().invoke(app, ["jobkind", "test", *files(tmp_path, SCALED, sample)])
    assert result.exit_code == 0, result.output
    found = yaml.safe_load(result.output)
    assert found["podSets"] == [{"name": "main", "count": 3, "requests": {"cpu": "2"}}]
    assert ([one["key"] for one in found["selector"]["matchExpressions"]] if found["selector"] else None) == message


@pytest.mark.parametrize(
    ("kind", "sample", "code", "message"),
    [
        pytest.param(changed("spec.suspend.path", ""), {**IS, **crane()}, 1, "spec.suspend.path: ''", id="bad kind"),
        pytest.param(
            GOOD, {**crane(), "apiVersion": "v1", "kind": "Pod"}, 1, "must be example.com/v1 Crane", id="other"
        ),
        pytest.param(GOOD, {**IS, **crane(teams=3)}, 1, "c: spec.teams: 3: must be a list", id="bad sample"),
        pytest.param(GOOD, {**IS, **crane(), "metadata": "c"}, 1, "metadata: must be a map", id="a name for metadata"),
        pytest.param(
            GOOD, {**IS, **of_crew(metadata=3)}, 1, "crews[0].pod.metadata: 3: must be a map", id="no metadata"
        ),
        pytest.param(
            GOOD, {**IS, **of_crew(spec={"containers": 3})}, 1, "crews[0].pod.spec.containers: ", id="no containers"
        ),
        pytest.param(
            GOOD,
            {**IS, **of_crew(spec={"nodeSelector": {"example.com/pool": "y"}})},
            1,
            "conflict for nodeSelector",
            id="pool",
        ),
        pytest.param({"kind": "Pod"}, {**IS, **crane()}, 2, "holds no JobKind", id="no JobKind"),
        pytest.param(
            changed("spec", 3), {**IS, **crane()}, 1, "JobKind cranes.example.com: spec: 3: must be a map", id="no spec"
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, kind: object, sample: object, code: int, message: str) -> None:
    result = CliRunner().invoke(app, ["jobkind", "test", *files(tmp_path, kind, sample)])
    assert result.exit_code == code
    assert message in result.output


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["jobkind", "rbac", str(tmp_path / "none.yaml")])
    assert result.exit_code == 2
    assert "none.yaml" in result.output


def test_rights_are_roles_that_ours_aggregate(tmp_path: Path) -> None:
    kind, _ = files(tmp_path, GOOD, {})
    roles = list(yaml.safe_load_all(CliRunner().invoke(app, ["jobkind", "rbac", kind]).output))
    assert [role["metadata"]["labels"] for role in roles] == [
        {"stowage.dev/aggregate-to-controller": "true"},
        {"stowage.dev/aggregate-to-webhook": "true"},
    ]
    assert roles[0]["rules"][0] == {
        "apiGroups": ["example.com"],
        "resources": ["cranes"],
        "verbs": ["get", "list", "watch", "patch"],
    }
