"""What a pod counts for in quota when resources are excluded or transformed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from admission.engine.quota.charging import ResourceRules, Transformation

CREDITS = Transformation("cpu", {"credits": Fraction(1, 500)})
GPUS = Transformation("mig-1g", {"gpu-memory": Fraction(5), "slots": Fraction(1, 7)}, retain=False)


@pytest.mark.parametrize(
    ("rules", "requests", "charged"),
    [
        pytest.param(ResourceRules(), {"cpu": 1}, None, id="no rules"),
        pytest.param(ResourceRules(excluded=("net.example.com/",)), {"cpu": 1}, None, id="nothing excluded is asked for"),
        pytest.param(ResourceRules(("net.",)), {"cpu": 1, "net.a": 2, "net.b": 3}, {"cpu": 1}, id="excluded by prefix"),
        pytest.param(ResourceRules((), (CREDITS,)), {"cpu": 1000}, {"cpu": 1000, "credits": 2}, id="beside the input"),
        pytest.param(
            ResourceRules((), (GPUS,)), {"mig-1g": 3, "cpu": 1}, {"cpu": 1, "gpu-memory": 15, "slots": 1},
            id="in place of the input, parts of units rounded up once",
        ),
        pytest.param(ResourceRules(("cpu",), (CREDITS,)), {"cpu": 9}, {}, id="excluding comes first"),
        pytest.param(
            ResourceRules((), (Transformation("a", {"c": Fraction(1, 2)}, False), Transformation("b", {"c": Fraction(1, 2)}))),
            {"a": 1, "b": 1, "c": 1}, {"b": 1, "c": 2},
            id="several inputs of one output add up",
        ),
        pytest.param(
            ResourceRules((), (Transformation("gpu", {"memory": Fraction(2)}, False, "cores"),)), {"gpu": 3, "cores": 4},
            {"memory": 24, "cores": 4}, id="multiplied by another resource",
        ),
        pytest.param(
            ResourceRules((), (Transformation("gpu", {"memory": Fraction(2)}, multiply_by="cpu"),)), {"gpu": 3, "cpu": 1500},
            {"gpu": 3, "memory": 12, "cpu": 1500}, id="multiplied by whole CPUs, begun ones included",
        ),
        pytest.param(
            ResourceRules((), (Transformation("gpu", {"memory": Fraction(2)}, False, "cores"),)), {"gpu": 3}, {"memory": 6},
            id="nothing to multiply by",
        ),
    ],
)  # fmt: skip
def test_charged(rules: ResourceRules, requests: dict[str, int], charged: dict[str, int] | None) -> None:
    assert rules.charged(requests) == charged
