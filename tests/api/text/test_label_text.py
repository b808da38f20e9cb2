"""Label selectors as text: what they select, and what is refused."""

from __future__ import annotations

import pytest

from api.errors import InvalidObject
from api.pod.labels import matches
from api.text.label_text import LONGEST, MOST_TERMS, parse_selector


@pytest.mark.parametrize(
    ("text", "selected", "others"),
    [
        ("app=web", [{"app": "web"}], [{"app": "x"}, {}]),
        ("app == web , tier!=db", [{"app": "web"}, {"app": "web", "tier": "x"}], [{"app": "web", "tier": "db"}]),
        ("tier in (a, b)", [{"tier": "b"}], [{"tier": "c"}, {}]),
        ("tier notin (a,b),app", [{"app": ""}], [{"app": "", "tier": "a"}, {}]),
        ("!example.com/app", [{}], [{"example.com/app": "x"}]),
        ("app=", [{"app": ""}], [{"app": "x"}]),
    ],
)
def test_a_selector_selects(text: str, selected: list[dict[str, str]], others: list[dict[str, str]]) -> None:
    selector = parse_selector(text, "status.selector")
    assert all(matches(selector, labels) for labels in selected)
    assert not any(matches(selector, labels) for labels in others)


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "a=b,", "a in", "a in (b", "((", "a=b=c", "a>1", "/a=b", "a=" + "x" * 64),
        *("a=b" + ",c" * MOST_TERMS, "x" * (LONGEST + 1), None, 3, {"a": "b"}),
    ],
    ids=lambda text: repr(text)[:20],
)
def test_what_is_none_is_refused_with_its_field(text: object) -> None:
    with pytest.raises(InvalidObject, match=r"status\.selector"):
        parse_selector(text, "status.selector", "web")
