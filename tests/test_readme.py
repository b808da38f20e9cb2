"""README and docs say what there is: every setting, and none that is not; every file, link and sample that they name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from admission.settings import AdmissionSettings
from ungater.settings import UngaterSettings

PROJECT = Path(__file__).resolve().parents[1]
PAGES = [
    PROJECT / "README.md",
    PROJECT / "SECURITY.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "SCOPE.md",
    *sorted((PROJECT / "docs").glob("*.md")),
    *sorted((PROJECT / "docs" / "guides").glob("*.md")),
]
TEXT = "\n".join(page.read_text() for page in PAGES)
OPEN = {"config", "managedJobsNamespaceSelector", "resources.transformations"}
"""The file itself, and settings whose inner words are Kubernetes' own or stand in their row."""


def settings(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The paths of its settings."""
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or to_camel(name)}"
        kinds = (field.annotation, *get_args(field.annotation))
        sections = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if sections and path not in OPEN:
            yield from settings(sections[0], f"{path}.")
        else:
            yield path


def paths(text: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Those of a file."""
    for key, value in text.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping) and key != "managedJobsNamespaceSelector":
            yield from paths(value, f"{above}{key}.")


ALL = {*settings(AdmissionSettings), *settings(UngaterSettings)} - {"config"}
CODE = {word for line in TEXT.splitlines() for word in re.findall("`([^`]+)`", line)}
FILES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(# settings.*?)```", TEXT, re.DOTALL)]
SHOWN = {path for file in FILES for path in paths(file)}


@pytest.mark.parametrize("path", sorted(ALL))
def test_every_setting_is_documented(path: str) -> None:
    assert path in CODE | SHOWN


def test_no_unknown_setting_is_documented() -> None:
    sections = {path.rpartition(".")[0] for path in ALL} | {path.partition(".")[0] for path in ALL}
    table = (PROJECT / "docs" / "settings.md").read_text()
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {word for cell in first for word in re.findall("`([^`]+)`", cell)} <= ALL | sections
    assert not SHOWN - ALL - sections


def is_there(path: str, test: str) -> bool:
    """Whether the file or folder exists, and in it the test where one is named."""
    found = PROJECT / path
    return found.exists() and (not test or f"def {test.partition('[')[0]}(" in found.read_text())


def test_every_file_and_folder_that_it_names_is_there() -> None:
    tops = ("api/", "admission/", "ungater/", "config/", "hack/", "tests/")
    named = {word for word in CODE if word.startswith(tops) and " " not in word}
    assert len(named) > 20
    assert [word for word in sorted(named) if not is_there(*word.partition("::")[::2])] == []


def test_every_sample_is_named() -> None:
    samples = {file.stem for file in (PROJECT / "config" / "samples").glob("*.yaml")} - {"kustomization"}
    assert [name for name in sorted(samples) if f"config/samples/{name}.yaml" not in TEXT] == []


def test_every_make_target_that_it_names_is_there() -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert {word.removeprefix("make ") for word in CODE if re.fullmatch("make [a-z0-9-]+", word)} <= set(targets)


def anchors(page: Path) -> set[str]:
    """What a link may name in the page, as a reader's browser makes it of the headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub("```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_readme_is_one_page() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 180


def test_the_first_screen_has_a_picture_a_reason_and_the_status() -> None:
    screen = (PROJECT / "README.md").read_text().partition("\n## ")[0]
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    control_plane = re.search(
        r"k8s\.io/kubernetes v(1\.\d+)", (PROJECT / "hack" / "controlplane" / "go.mod").read_text()
    )
    assert control_plane is not None
    assert "](docs/images/dashboard-" in screen
    assert f"Version {version}, tested with Kubernetes {control_plane[1]};" in screen


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (PROJECT / "README.md").read_text()
    assert [page.name for page in PAGES[1:] if f"]({page.relative_to(PROJECT)})" not in readme] == []


THREATS = [
    line
    for line in (PROJECT / "SECURITY.md").read_text().partition("## Threats")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| threat ")
]


@pytest.mark.parametrize("line", THREATS, ids=lambda line: line[2:60])
def test_each_threat_names_a_test_that_shows_its_defence(line: str) -> None:
    """`...::name` is of the file that was named before it."""
    *_, shown, _ = line.split("|")
    named = re.findall(r"`([^`]+)`", shown)
    assert named, line
    file = ""
    for each in named:
        path, _, function = each.partition("::")
        file = path if path != "..." else file
        text = (PROJECT / file).read_text()
        assert not function or f"def {function}(" in text, each
