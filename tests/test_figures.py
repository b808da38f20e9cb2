"""tests/bench/RESULTS.md: it stays a page of the latest figures: a row is replaced, and each names a command that exists."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "bench"
PAGE = next(FOLDER.glob("*.md")).read_text()
PARTS = set(re.findall(r'@app\.command\("([a-z-]+)"\)', (FOLDER / "__main__.py").read_text()))


OTHERS = {"bash", "make", "pytest", "python"}
"""Commands of figures that are no part of the bench."""


def commands(page: str) -> set[str]:
    """The parts of the bench that the page names: after `python -m tests.bench`, and in the cells of a column of commands."""
    parts = set(re.findall(r"`python -m tests\.bench ([a-z-]+)", page))
    for table in re.findall(r"^\|[^\n]*\bcommand\b[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)", page, re.MULTILINE):
        parts |= set(re.findall(r"\| `([a-z-]+)(?: --?[a-z][^`]*| nodes)?` \|", table))
    return parts - OTHERS


def test_only_the_latest_figures_are_kept() -> None:
    assert len(PAGE.splitlines()) <= 200


def test_each_named_part_of_the_bench_exists() -> None:
    assert {"jobs", "forecast", "exact", "coldstart", "rack-gangs"} <= commands(PAGE) <= PARTS


def test_a_part_that_is_gone_is_noticed() -> None:
    assert commands("| figure | command |\n|---|---|\n| x | `gone --fast` |\n") == {"gone"}
