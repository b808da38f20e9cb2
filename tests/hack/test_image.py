"""The image: every step of the Dockerfile runs, twice with the same result, and the processes start in what it makes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hack.dockerfile import Build, Stage

pytestmark = pytest.mark.long
PROJECT = Path(__file__).resolve().parents[2]


def can_mount(folder: Path) -> bool:
    """Whether this process may mount an overlay here, as root on a machine of its own."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
    options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    tried = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(folder / "root")], capture_output=True
    )
    if tried.returncode == 0:
        subprocess.run(["umount", str(folder / "root")], check=True)
    return tried.returncode == 0


def contents(folder: Path) -> dict[str, str]:
    """The mode and the content of each file and link, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = f"{path.lstat().st_mode:o}"
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"{mode} {path.readlink()}"
        elif path.is_file():
            found[str(path.relative_to(folder))] = f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[Build, Stage], ...]]:
    """Two builds of the same checkout, one after the other."""
    if sys.platform != "linux" or os.geteuid() or not can_mount(tmp_path_factory.mktemp("tried")):
        pytest.skip("mounting an overlay takes root on Linux")
    text = (PROJECT / "Dockerfile").read_text()
    folder = tmp_path_factory.mktemp("image")
    with Build(PROJECT, folder / "first", {}) as first, Build(PROJECT, folder / "second", {}) as second:
        yield (first, first.run(text)), (second, second.run(text))
    shutil.rmtree(folder)


def test_two_builds_are_the_same(images: tuple[tuple[Build, Stage], ...]) -> None:
    first, second = (contents(stage.root / "opt" / "stowage") for _, stage in images)
    assert first.keys() == second.keys()
    assert not {path for path in first if first[path] != second[path]}


def test_the_image_has_what_the_processes_import_and_no_tool(images: tuple[tuple[Build, Stage], ...]) -> None:
    (_, stage), _ = images
    (packages,) = (stage.root / "opt" / "stowage" / "lib").glob("python*/site-packages")
    present = {path.name for path in packages.iterdir()}
    assert {"admission", "api", "ungater", "aiohttp", "numpy"} <= present
    assert not present & {"pip", "pytest", "_pytest", "hypothesis", "mypy", "mkdocs", "setuptools", "matplotlib"}
    assert list(packages.glob("admission/__pycache__/*.pyc")), "a root file system that is read-only keeps no bytecode"


@pytest.mark.parametrize("command", [["admission", "webhook"], ["admission", "controller"], ["ungater"]], ids=" ".join)
def test_a_process_starts_as_another_user(images: tuple[tuple[Build, Stage], ...], command: list[str]) -> None:
    """As far as it gets without a cluster: it reads its settings and names the wrong one."""
    (build, stage), _ = images
    assert stage.user != "0:0"
    assert stage.command[:2] == ["python", "-m"]
    wrong = Stage(stage.root, {**stage.environment, "STOWAGE_CLIENT__QPS": "many"}, stage.folder, stage.user)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        build.call(wrong, [*stage.command[:2], *command], 60)
    assert failed.value.returncode == 2
    assert "STOWAGE_CLIENT__QPS" in failed.value.stderr or "client" in failed.value.stderr


def test_a_base_without_digest_is_refused(tmp_path: Path, images: object) -> None:
    with Build(PROJECT, tmp_path, {"BASE": "python:3.12"}) as build, pytest.raises(subprocess.CalledProcessError):
        build.run((PROJECT / "Dockerfile").read_text())
