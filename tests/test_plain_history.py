"""No file cites a tracker that its reader cannot open: tests, code and documents say the matter.

Numbers with the name of a public project (kueue#13148) may stay.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
TOPS = ("admission", "api", "config", "docs", "hack", "tests", "ungater", "newsfragments")
OWN = {Path(__file__), PROJECT / "hack" / "commit_message.py", PROJECT / "tests" / "hack" / "test_commit_message.py"}
"""They show what is refused."""
CITED = re.compile(
    r"\bissues? #?\d+"  # Issue 20, issue 21.3
    r"|(?<![\w/&`\"'#-])#\d{1,3}\b(?![\w-])"  # see #21
    r"|\(\d{1,2}, must be shown\b"  # (21, must be shown 2)
    r"|(?:#|\"\"\") ?[A-F]\d{1,2}[.:] ",  # B9: metrics
    re.IGNORECASE,
)
FILES = [
    *sorted(PROJECT.glob("*.md")),
    *(
        file
        for top in TOPS
        for file in sorted((PROJECT / top).rglob("*"))
        if file.suffix in (".py", ".md", ".yaml", ".sh", ".ts", ".tsx")
        and "node_modules" not in file.parts
        and file not in OWN
    ),
]


@pytest.mark.parametrize(
    "text",
    [
        "Issue 20, line 2.",
        "of issue 16",
        "issues 20 and 21",
        "issue #21",
        "see #21",
        "(21, must be shown 2)",
        '"""B9: metrics',
        "# A2: x",
    ],
)
def test_a_citation_is_noticed(text: str) -> None:
    assert CITED.search(text)


@pytest.mark.parametrize(
    "text", ["kueue#13148", "issue a certificate", "page.html#3", "(21, 2)", "&#39;", "## 2. Steps"]
)
def test_what_a_reader_can_open_is_no_citation(text: str) -> None:
    assert not CITED.search(text)


def test_no_file_cites_a_private_tracker() -> None:
    assert [
        f"{file.relative_to(PROJECT)}: {hit[0]}" for file in FILES for hit in [CITED.search(file.read_text())] if hit
    ] == []
