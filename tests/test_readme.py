"""The README says what there is: every setting, and none that is not; every folder, file and sample that it names."""

from __future__ import annotations

import re
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
TEXT = (PROJECT / "README.md").read_text()
OPEN = {"config", "managedJobsNamespaceSelector", "resources.transformations"}
"""The file itself, and settings whose inner words are Kubernetes' own or stand in their row."""


def settings(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The paths of its settings."""
    for name, field in model.model_fields.items():
        path = f"{above}{to_camel(name)}"
        kinds = (field.annotation, *get_args(field.annotation))
        sections = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if sections and path not in OPEN:
            yield from settings(sections[0], f"{path}.")
        else:
            yield path


def paths(given: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Those of a file."""
    for key, value in given.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping) and key != "managedJobsNamespaceSelector":
            yield from paths(value, f"{above}{key}.")


ALL = {*settings(AdmissionSettings), *settings(UngaterSettings)} - {"config"}
CODE = {word for line in TEXT.splitlines() for word in re.findall("`([^`]+)`", line)}
FILES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(# settings.*?)```", TEXT, re.DOTALL)]
SHOWN = {path for file in FILES for path in paths(file)}


@pytest.mark.parametrize("path", sorted(ALL))
def test_every_setting_is_told(path: str) -> None:
    assert path in CODE | SHOWN


def test_no_other_is() -> None:
    sections = {path.rpartition(".")[0] for path in ALL} | {path.partition(".")[0] for path in ALL}
    table = TEXT[TEXT.index("## Settings") : TEXT.index("## Where to look")]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {word for cell in first for word in re.findall("`([^`]+)`", cell)} <= ALL | sections
    assert not SHOWN - ALL - sections


def test_every_file_and_folder_that_it_names_is_there() -> None:
    tops = ("api/", "admission/", "ungater/", "config/", "hack/", "tests/")
    named = {word for word in CODE if word.startswith(tops) and " " not in word}
    assert len(named) > 20
    assert [word for word in sorted(named) if not (PROJECT / word).exists()] == []


def test_every_sample_is_named() -> None:
    samples = {file.stem for file in (PROJECT / "config" / "samples").glob("*.yaml")} - {"kustomization"}
    assert [name for name in sorted(samples) if f"config/samples/{name}.yaml" not in TEXT] == []


def test_every_make_target_that_it_names_is_there() -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert {word.removeprefix("make ") for word in CODE if re.fullmatch("make [a-z0-9-]+", word)} <= set(targets)
