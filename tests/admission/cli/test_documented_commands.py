"""The console blocks of docs/explain.md, which a reader can type as they stand, print what the page says (17, 2)."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from admission.cli.main import app

PROJECT = Path(__file__).resolve().parents[3]
PAGE = (PROJECT / "docs" / "explain.md").read_text()
BLOCKS = re.findall(r"^```\n(\$ stowage .*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def expanded(word: str) -> Iterator[str]:
    """The words that bash makes of one with braces."""
    parts = re.split(r"\{([^}]*)\}", word)
    yield from map("".join, itertools.product(*(p.split(",") if n % 2 else [p] for n, p in enumerate(parts))))


def run(line: str) -> str:
    """The output of a command, without blanks at the ends of lines."""
    done = CliRunner().invoke(app, [each for word in shlex.split(line)[1:] for each in expanded(word)])
    assert done.exit_code == 0, done.output
    return "\n".join(text.rstrip() for text in done.output.splitlines()).strip()


def test_braces() -> None:
    assert list(expanded("a/{b,c}.yaml")) == ["a/b.yaml", "a/c.yaml"]
    assert list(expanded("plain")) == ["plain"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: " ".join(block.split()[1:3]))
def test_commands_print_what_the_page_shows(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, because a command writes a file there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(PROJECT / "config")
    for step in block.split("$ ")[1:]:
        line, _, shown = step.partition("\n")
        assert run(line) == "\n".join(text.rstrip() for text in shown.splitlines()).strip()


def test_the_page_has_such_blocks() -> None:
    assert len(BLOCKS) == 3
