"""Elastic quotas above the ResourceQuotas of their namespace."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admission.controllers.elastic_quota.resource_quotas import ResourceQuota, above_hard
from admission.controllers.elastic_quota.translation import QuotaBounds

GPU = "nvidia.com/gpu"


def hard(amounts: dict[str, Any], name: str = "team", **spec: Any) -> ResourceQuota:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"hard": amounts, **spec}}, ResourceQuota)


SIX = {f"requests.{GPU}": 6}


@pytest.mark.parametrize(
    ("most", "quota", "want"),
    [
        pytest.param(8, hard(SIX), "max is 8 nvidia.com/gpu (the ResourceQuota team allows 6)", id="above"),
        pytest.param(6, hard(SIX), "", id="equal"),
        pytest.param(None, hard(SIX), "", id="without-max"),
        pytest.param(8, hard({"requests.cpu": 1, "pods": 1}), "", id="other-resources"),
        pytest.param(8, hard(SIX, scopes=["BestEffort"]), "", id="of-some-pods"),
        pytest.param(8, hard(SIX, scopeSelector={"matchExpressions": []}), "", id="selects-some-pods"),
        pytest.param(8, hard({f"requests.{GPU}": "six"}), "", id="unreadable"),
    ],
)
def test_max_is_compared_with_hard(most: int | None, quota: ResourceQuota, want: str) -> None:
    assert above_hard(QuotaBounds({}, {} if most is None else {GPU: most}), [quota]) == want


@pytest.mark.parametrize("key", ["cpu", "requests.cpu", "limits.cpu"])
def test_each_form_of_hard_bounds_what_pods_request(key: str) -> None:
    said = above_hard(QuotaBounds({}, {"cpu": 4000}), [hard({key: "2500m"})])
    assert said == "max is 4 cpu (the ResourceQuota team allows 2500m)"


@pytest.mark.parametrize("key", ["pods", "count/pods"])
def test_pods_are_counted_in_two_forms(key: str) -> None:
    said = above_hard(QuotaBounds({}, {"pods": 4}), [hard({key: 3})])
    assert said == "max is 4 pods (the ResourceQuota team allows 3)"


def test_a_min_without_max_is_compared_and_the_least_hard_is_told() -> None:
    quotas = [hard({f"requests.{GPU}": number}, name) for name, number in (("wide", 7), ("narrow", 5))]
    said = above_hard(QuotaBounds({GPU: 6}, {}), quotas)
    assert said == "min is 6 nvidia.com/gpu (the ResourceQuota narrow allows 5)"


def test_many_are_told_in_a_bounded_text() -> None:
    names = [f"example.com/r{number:02}" for number in range(64)]
    quota = hard({f"requests.{name}": 1 for name in names})
    said = above_hard(QuotaBounds({}, dict.fromkeys(names, 2)), [quota])
    assert said.startswith("max is 2 example.com/r00 (the ResourceQuota team allows 1)")
    assert said.endswith(" and 59 more")
