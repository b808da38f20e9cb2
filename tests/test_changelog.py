"""The CHANGELOG can be read by somebody who upgrades: what must be done comes first, and a version has few entries."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
VERSIONS = dict(
    re.findall(
        r"^## (\d+\.\d+\.\d+)\n(.*?)(?=^## |\Z)", (PROJECT / "CHANGELOG.md").read_text(), re.DOTALL | re.MULTILINE
    )
)
"""Each version with its text; the newest comes first."""
FIRST = "0.1.0"


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != FIRST])
def test_what_must_be_done_comes_first_and_there_are_few_entries(version: str) -> None:
    text = VERSIONS[version]
    assert text.lstrip().startswith("### Actions required\n")
    assert len(re.findall(r"^- ", text, re.MULTILINE)) <= 80


def test_the_newest_version_is_that_of_the_package() -> None:
    package = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    assert list(VERSIONS) == sorted(VERSIONS, key=lambda version: tuple(map(int, version.split("."))), reverse=True)
    assert next(iter(VERSIONS)) == package
