"""Which file or group a free worker gets."""

from __future__ import annotations

import pytest

from tests.dealing import LONGEST, SHARING, STAGES, next_scope

UNIT = "tests/api/test_meta.py"
OTHER = "tests/api/cel/test_cel.py"
LONG = "tests/scenarios/test_faults.py"
SHORT = "tests/scenarios/test_shaping.py"
SHARED = ["s@test_edges", "s@test_grove", "s@test_migration"]


@pytest.mark.parametrize(
    ("waiting", "stage", "elsewhere", "computes", "value"),
    [
        pytest.param([UNIT, SHORT, LONG], None, {}, False, LONG, id="the longest stage first"),
        pytest.param([OTHER, UNIT, LONG], None, {}, True, OTHER, id="what computes first, in its order"),
        pytest.param([UNIT, OTHER], None, {}, False, UNIT, id="what computes when no stage is left"),
        pytest.param([SHORT, LONG], None, {}, True, LONG, id="a stage when nothing else is left"),
        pytest.param([LONG, *SHARED], "s", {}, False, SHARED[0], id="the open stage goes on"),
        pytest.param([LONG, *SHARED], "s", {}, True, SHARED[0], id="also where it computes first"),
        pytest.param([UNIT, *SHARED], None, {"s": 2}, False, SHARED[0], id="a second stage while many modules wait"),
        pytest.param(
            [*SHARED, SHORT], None, {"s": 3}, False, SHORT, id="a stage of its own before one more of the same"
        ),
        pytest.param([UNIT, *SHARED], None, {"s": 3}, False, SHARED[0], id="one more of the same before what computes"),
        pytest.param(["attacks-embedded", SHORT], None, {}, False, "attacks-embedded", id="a group by its name"),
    ],
)
def test_given_to_a_free_worker(
    waiting: list[str], stage: str | None, elsewhere: dict[str, int], computes: bool, value: str
) -> None:
    assert next_scope(waiting, stage, elsewhere, computes) == value


def test_what_is_named_is_there() -> None:
    """A file that is gone would be dealt out late, and nobody would notice."""
    modules = {path.stem for top in STAGES for path in (top.rglob("test_*.py") if top.is_dir() else [top])}
    there = modules | {f"{folder.name}-{server}" for folder in SHARING for server in ("embedded", "real")}
    assert [path for path in STAGES if not path.exists()] == []
    assert set(LONGEST) - there == set()
