"""Every document that the code cites is in the repository, every section of the specification has a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
FOLDERS = tuple(PROJECT / folder for folder in (".", "docs/specification", "docs", "docs/reference"))
SOURCES = [
    file
    for top in ("api", "admission", "ungater", "hack", "tests", "config")
    for file in sorted((PROJECT / top).rglob("*"))
    if file.suffix in (".py", ".yaml") and file != Path(__file__)
]
CITING = re.compile(r"^.*\.md\b.*$", re.MULTILINE)
DOCUMENT = re.compile(r"(?<![\w/.])((?:[\w-]+/)*[\w-]+\.md)\b([^\n;]*)")
QUIRK = re.compile(r"\bquirks (A\.\d)")
SECTION = re.compile(r"\b[A\d]\.\d+(?:\.\d+)*\b")


def citations(text: str) -> set[tuple[str, str]]:
    """Document and section; the section is empty where only the document is named."""
    found = {("quirks.md", section) for section in QUIRK.findall(text)}
    for document, rest in DOCUMENT.findall("\n".join(CITING.findall(text))):  # few lines have one
        found |= {(document, section) for section in SECTION.findall(rest.partition(".md")[0])} or {(document, "")}
    return found


def document(name: str) -> Path | None:
    """Where it is."""
    return next((folder / name for folder in FOLDERS if (folder / name).is_file()), None)


ALL = sorted({(*cited, str(file.relative_to(PROJECT))) for file in SOURCES for cited in citations(file.read_text())})


def test_citations_are_found() -> None:
    assert citations("Order: cycle.md 4.1, 4.3 (text) and 4.11; quirks A.2\nsee docs/gangs.md") == {
        ("cycle.md", "4.1"),
        ("cycle.md", "4.3"),
        ("cycle.md", "4.11"),
        ("docs/gangs.md", ""),
        ("quirks.md", "A.2"),
    }
    assert len(ALL) > 30


@pytest.mark.parametrize(("name", "section", "cited_in"), ALL)
def test_cited_section_exists(name: str, section: str, cited_in: str) -> None:
    file = document(name)
    assert file is not None, f"{cited_in} cites {name}, which is not in the repository"
    headings = re.findall(r"^#+ ([A\d][.\d]*) ", file.read_text(), re.MULTILINE)
    assert not section or section in headings, f"{cited_in} cites {name} {section}, which has no heading"


PRIVATE = re.compile(r"\bthe peer\b|\bthe field's\b|\bwhoever\b|\bcustoms office\b", re.IGNORECASE)
PRODUCT = [file for file in SOURCES if file.relative_to(PROJECT).parts[0] != "tests"]
WRITTEN = [*PRODUCT, PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]


def test_product_and_docs_name_kueue_and_users_plainly() -> None:
    assert [str(file.relative_to(PROJECT)) for file in WRITTEN if PRIVATE.search(file.read_text())] == []
