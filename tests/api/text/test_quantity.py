"""Quantities: Kubernetes' grammar, integers in milli-CPU and whole units, and canonical text back."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import InvalidQuantity
from api.text.quantity import parse, parse_list, to_int, to_text, to_texts


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "2", 2000),
        ("cpu", 2, 2000),
        ("cpu", "500m", 500),
        ("cpu", "1.5", 1500),
        ("cpu", 1.5, 1500),
        ("cpu", ".5", 500),
        ("cpu", "1.", 1000),
        ("cpu", "1u", 1),  # rounds up
        ("cpu", "100n", 1),
        ("cpu", "2k", 2_000_000),
        ("cpu", "1e-1", 100),
        ("memory", "64Gi", 64 * 2**30),
        ("memory", "1Ki", 1024),
        ("memory", "1.5Ki", 1536),
        ("memory", "128974848", 128974848),
        ("memory", "129e6", 129_000_000),
        ("memory", "129E6", 129_000_000),
        ("memory", "1E", 10**18),
        ("memory", "1Ei", 2**60),
        ("memory", "123M", 123_000_000),
        ("memory", "1500m", 2),  # rounds up
        ("nvidia.com/gpu", "8", 8),
        ("pods", "110", 110),
        ("memory", "0", 0),
        ("memory", "+5", 5),
        ("memory", "-5", -5),
        ("memory", "-1500m", -2),  # away from zero
    ],
)
def test_to_int(resource: str, text: str | float, amount: int) -> None:
    assert to_int(resource, text) == amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1 Gi",
        "Gi",
        "1gi",
        "1K",
        "1KiB",
        "1e",
        "--1",
        "1,5",
        "0x10",
        "1mi",
        ".",
        "٣",
        " 1",
        "1 ",
        "1\n",
        "1٣m",
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity, match="must be a quantity such as"):
        parse(text)


@pytest.mark.parametrize("text", ["1e1000000000", "1e-1000000000", "1E+100", "9" * 5000, "0." + "0" * 100 + "1"])
def test_text_that_would_cost_hours_is_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidQuantity, match="must be a quantity such as"):
        parse(text)


def test_a_list_names_the_resource_that_is_wrong() -> None:
    with pytest.raises(InvalidQuantity) as caught:
        parse_list({"cpu": "1", "memory": "lots"}, "requests")
    assert caught.value.field == "requests[memory]"
    assert caught.value.given == "lots"


def test_a_missing_list_is_empty() -> None:
    assert parse_list(None) == {}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 0, "0"),
        ("cpu", 2_000_000, "2k"),
        ("cpu", -500, "-500m"),
        ("memory", 64 * 2**30, "64Gi"),
        ("memory", 1000, "1k"),
        ("memory", 1536, "1536"),
        ("memory", 0, "0"),
        ("memory", -(2**20), "-1Mi"),
        ("nvidia.com/gpu", 8, "8"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 5000, "5k"),
        ("hugepages-2Mi", 2**21, "2Mi"),
    ],
)
def test_to_text(resource: str, amount: int, text: str) -> None:
    assert to_text(resource, amount) == text


RESOURCES = st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu"])


@given(resource=RESOURCES, amount=st.integers(-(2**63) + 1, 2**63 - 1))
def test_text_reads_back_as_the_amount(resource: str, amount: int) -> None:
    assert to_int(resource, to_text(resource, amount)) == amount


@pytest.mark.parametrize("text", ["9223372036854776", "9223372036854775807m", "1e30"])
def test_what_64_bits_do_not_hold_is_their_largest(text: str) -> None:
    assert to_text("cpu", to_int("cpu", text)) == "9223372036854775807m"


@given(resource=RESOURCES, number=st.decimals(-10_000, 10_000, places=3), suffix=st.sampled_from(["", "m", "k", "Mi"]))
def test_an_integer_is_the_value_or_the_next_one_away_from_zero(resource: str, number: object, suffix: str) -> None:
    text = f"{number}{suffix}"
    exact = parse(text) * (1000 if resource == "cpu" else 1)
    amount = to_int(resource, text)
    assert 0 <= abs(amount) - abs(exact) < 1
    assert amount * exact >= 0


def test_value_is_exact() -> None:
    assert parse("0.1") == Fraction(1, 10)
    assert to_texts({"cpu": 100, "memory": 2**30}) == {"cpu": "100m", "memory": "1Gi"}
