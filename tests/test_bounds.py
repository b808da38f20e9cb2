"""docs/operations.md lists what the processes keep in memory: each informer is in its table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.kube import resources

PROJECT = Path(__file__).resolve().parents[1]
SECTION = "## What each process keeps"
MADE = re.compile(r"Informer(?:\[\w+\])?\(\s*(?:self\._|shared\.)?kube, ([A-Z][A-Z_]+)")


def made() -> Iterator[str]:
    """The constants of the resources that informers of the three processes are made for."""
    for top in ("admission", "ungater"):
        for file in sorted((PROJECT / top).rglob("*.py")):
            yield from MADE.findall(file.read_text())


@pytest.mark.parametrize("name", sorted(set(made())))
def test_each_informer_is_in_the_table(name: str) -> None:
    text = (PROJECT / "docs/operations.md").read_text().partition(SECTION)[2]
    assert f"`{getattr(resources, name).plural}`" in text


def test_informers_are_found() -> None:
    assert {"WORKLOADS", "NODES", "CLAIMS", "JOB_KINDS"} <= set(made())
