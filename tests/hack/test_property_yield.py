"""The yield of a property: how many of its examples cover something new."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.property_yield import Yield, measure, table

PROPERTY = """
from hypothesis import given, settings, strategies as st
from api.text.quantity import to_int

@settings(max_examples=10)
@given(st.sampled_from(["1", "2", "1500m", "1Ki", "2G"]))
def test_it_is_read(text):
    assert to_int("cpu", text) >= 0

def test_without_examples():
    assert to_int("cpu", "1") == 1000
"""


@pytest.mark.stage
def test_each_new_branch_is_counted_with_its_example(tmp_path: Path) -> None:
    file = tmp_path / "test_drawn.py"
    file.write_text(PROPERTY)
    [(name, found)] = measure([str(file)], times=2, seed=0).items()
    assert name.endswith("::test_it_is_read")
    assert found.budget == 10
    assert found.last_new <= found.examples <= 20
    assert 0 < found.covered(1) <= found.covered(20)
    row = table([{name: found}], 2).splitlines()[-1]
    assert row.startswith("| drawn: it_is_read | 10 |")


@pytest.mark.parametrize(("examples", "branches"), [(0.25, 5), (1, 5), (3, 5), (4, 8), (99, 8)])
def test_covered_by_so_many_examples(examples: float, branches: int) -> None:
    assert Yield(rises=[(1, 5), (4, 8)]).covered(examples) == branches
