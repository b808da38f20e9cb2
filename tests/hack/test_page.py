"""The check of the built page finds each way in which it no longer is what its sources say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hack import page


def edit_source(folder: Path) -> None:
    (folder / "page" / "src" / "main.tsx").write_text("// another\n")


def add_source(folder: Path) -> None:
    (folder / "page" / "src" / "more.ts").write_text("export {};\n")


def edit_built(folder: Path) -> None:
    (folder / "static" / "index.html").write_text("<p>changed</p>\n")


def forget_record(folder: Path) -> None:
    (folder / "static" / page.RECORD).unlink()


def name_addresses(folder: Path) -> None:
    file = folder / "page" / "package-lock.json"
    lock = json.loads(file.read_text())
    lock["packages"]["node_modules/preact"]["resolved"] = "https://proxy.example/preact.tgz"
    file.write_text(json.dumps(lock))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(page.FOLDER / "page", tmp_path / "page", ignore=shutil.ignore_patterns("node_modules"))
    shutil.copytree(page.FOLDER / "static", tmp_path / "static")
    return tmp_path


def test_the_built_page_is_of_its_sources(folder: Path) -> None:
    assert list(page.problems(folder)) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(edit_source, "sources changed", id="source edited"),
        pytest.param(add_source, "sources changed", id="source added"),
        pytest.param(edit_built, "changed by hand", id="built file edited"),
        pytest.param(forget_record, "is missing", id="no record"),
        pytest.param(name_addresses, "addresses", id="lock with addresses"),
    ],
)
def test_a_change_is_found(change: Callable[[Path], None], message: str, folder: Path) -> None:
    change(folder)
    assert any(message in problem for problem in page.problems(folder))


def test_dependencies_beside_the_sources_are_none_of_them(folder: Path) -> None:
    (folder / "page" / "node_modules").mkdir()
    (folder / "page" / "node_modules" / "left.js").write_text("x")
    assert list(page.problems(folder)) == []
