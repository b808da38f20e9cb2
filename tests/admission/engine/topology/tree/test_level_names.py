"""Which level a name means, and what is said where it means none or several."""

from __future__ import annotations

import pytest

from admission.engine.topology.tree.tree_spec import resolve

LEVELS = ("example.com/block", "example.com/rack", "other.io/rack", "kubernetes.io/hostname")


@pytest.mark.parametrize(
    ("name", "levels", "want"),
    [
        pytest.param("example.com/rack", LEVELS, 1, id="label-key"),
        pytest.param("block", LEVELS, 0, id="last-part"),
        pytest.param("hostname", LEVELS, 3, id="hostname"),
        pytest.param("node", LEVELS, 3, id="node-is-the-host"),
        pytest.param("node", ("rack", "node"), 1, id="a-level-called-node-is-itself"),
        pytest.param("node", ("rack", "x.io/node", "kubernetes.io/hostname"), 1, id="a-key-that-ends-in-node-first"),
        pytest.param("rack", ("rack", "x.io/rack"), 0, id="the-key-written-in-full-first"),
        pytest.param("rack", LEVELS, "level rack could be any of: example.com/rack, other.io/rack", id="ambiguous"),
        pytest.param("row", ("block", "rack"), "no level row: there are block, rack", id="unknown"),
        pytest.param("node", ("block", "rack"), "no level node: there are block, rack", id="no-hosts-here"),
        pytest.param("x.io/row", ("y.io/row",), "no level x.io/row: there are y.io/row", id="other-prefix"),
    ],
)  # fmt: skip
def test_resolve(name: str, levels: tuple[str, ...], want: int | str) -> None:
    assert resolve(name, levels) == want
