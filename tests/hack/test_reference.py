"""The generated reference pages say of each setting, reason, label and annotation what it means (issue 17, 2)."""

from __future__ import annotations

import re

import pytest

from hack.reference import FOLDER


@pytest.mark.parametrize("page", ["settings", "metrics", "conditions", "labels"])
def test_each_row_says_what_it_means(page: str) -> None:
    rows = re.findall(r"^\| `.*$", (FOLDER / f"{page}.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if not row.rstrip(" |").count("|") or re.search(r"\|\s*\|$", row)] == []
