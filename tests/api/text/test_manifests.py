"""What the only reader of YAML reads, and what it refuses before it costs time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from api.text.manifests import DEEPEST, LONGEST_NUMBER, LONGEST_SCALAR, TooLarge, parsed


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 250_000, id="lists"),
        pytest.param("{a: " * 60_000, id="maps"),
        pytest.param("- " * 120_000 + "a", id="a block"),
        pytest.param("? " * 120_000 + "a", id="keys"),
        pytest.param("a: 1\n---\n" + "- " * (DEEPEST + 1) + "a", id="the second document"),
        pytest.param(f"a: &a {'[' * 150}{']' * 150}\nb: {'[' * 100}*a{']' * 100}", id="by an alias"),
    ],
)
def test_what_nests_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(TooLarge, match=f"nests deeper than {DEEPEST} levels"):
        parsed(text)


def test_what_is_deep_but_within_the_limit_is_read() -> None:
    text = "- " * DEEPEST + "a"
    assert len(parsed(f"{text}\n---\n{text}")) == 2


def test_what_is_no_yaml_is_told() -> None:
    with pytest.raises(yaml.YAMLError, match="expected"):
        parsed("[a")


DOUBLED = "a0: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40))
MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}\n" for n in range(40))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(DOUBLED, id="aliases that double"),
        pytest.param(MERGED, id="merge keys that double"),
        pytest.param("a: &a [" + "x, " * 1000 + "]\nb: [" + "*a, " * 1000 + "]", id="a long list many times"),
        pytest.param("a: &a [*a]", id="a list that contains itself"),
        pytest.param("a: &a 1\nb: &a [*a]", id="a list that contains itself under a name of another"),
        pytest.param("*none", id="an alias of nothing"),
        pytest.param("a: &a 1\n---\nb: *a", id="an alias of another document"),
        pytest.param("a: " + "x" * (LONGEST_SCALAR + 1), id="a long text"),
    ],
)
def test_what_a_short_text_makes_large_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parsed(text)


SIXTIES = "59" + ":59" * 80_000
"""To the base 60 its value has 140,000 digits."""


@pytest.mark.parametrize("text", [SIXTIES, f"{SIXTIES}.5", "1:30", "-12:00:01.5"])
def test_what_yaml_calls_a_number_to_the_base_60_is_a_text(text: str) -> None:
    assert parsed(f"a: {text}") == [{"a": text}]


@pytest.mark.parametrize("tag", ["int", "float"])
@pytest.mark.parametrize(
    "text", [SIXTIES, "1:30", "9" * (LONGEST_NUMBER + 1), "0x" + "f" * 300_000, "no", "_", "0b", "0x", "08"]
)
def test_a_tag_makes_no_number_of_it(text: str, tag: str) -> None:
    with pytest.raises(yaml.YAMLError, match="must be a number"):
        parsed(f"a: !!{tag} {text!r}")


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "f" * 300_000, "1" * 5000 + ".5", "1" * 100 + "e5"])
def test_a_number_of_many_digits_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match=f"must be a number of at most {LONGEST_NUMBER} characters"):
        parsed(f"a: {text}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-17", -17),
        ("+1_000", 1000),
        ("0o17", 15),
        ("017", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        (".inf", float("inf")),
        ("true", True),
        ("~", None),
        ("100m", "100m"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("=", "="),
        ("'1:30'", "1:30"),
    ],
)
def test_what_kubernetes_reads_is_read(text: str, value: object) -> None:
    assert parsed(f"a: {text}") == [{"a": value}]


@pytest.mark.parametrize(
    "text", ["!!timestamp 2026-99-99", "!!binary 'a'", "!!set {a}", "!!python/name:os.system", "!!omap [a: 1]"]
)
def test_what_json_has_not_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
        parsed(f"a: {text}")


@pytest.mark.parametrize("folder", ["admission", "api", "ungater"])
def test_no_other_module_reads_yaml(folder: str) -> None:
    """So that a bound of the reader is a bound of each input."""
    readers = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "compose", "compose_all", "parse", "scan"}
    calls = re.compile(rf"\byaml\.(?:{'|'.join(sorted(readers))})\(|Loader\b")
    root = Path(__file__).resolve().parents[3]
    files = [file for file in (root / folder).rglob("*.py") if file != root / "api" / "text" / "manifests.py"]
    assert files
    assert not [str(file) for file in files if calls.search(file.read_text())]
