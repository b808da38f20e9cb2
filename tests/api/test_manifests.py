"""YAML that would make libyaml recurse until the process ends. Issue 20, must be shown 5."""

from __future__ import annotations

import pytest
import yaml

from api.manifests import DEEPEST, TooDeep, parsed


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 250_000, id="lists"),
        pytest.param("{a: " * 60_000, id="maps"),
        pytest.param("- " * 120_000 + "a", id="a block"),
        pytest.param("? " * 120_000 + "a", id="keys"),
        pytest.param("a: 1\n---\n" + "- " * (DEEPEST + 1) + "a", id="the second document"),
    ],
)
def test_what_nests_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(TooDeep, match=f"nests deeper than {DEEPEST} levels"):
        parsed(text)


def test_what_is_deep_but_within_the_limit_is_read() -> None:
    text = "- " * DEEPEST + "a"
    assert len(parsed(f"{text}\n---\n{text}")) == 2


def test_what_is_no_yaml_is_told() -> None:
    with pytest.raises(yaml.YAMLError, match="expected"):
        parsed("[a")
