"""The codec keeps every domain, in order, whatever the names; the compact form is never longer than the plain fold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.assignment import Domain, decode, domain_count, encode
from api.errors import InvalidObject
from api.names import HOSTNAME_LABEL
from api.topology_assignment import TopologyAssignment

WORDS = st.text(alphabet="ab-1", max_size=6)
HOSTS = st.builds("{}-{}".format, st.sampled_from(["pool-a", "pool-b", "pool-b-x", "n", 'é"-ü']), st.integers(0, 99))


def domains_of(levels: int, last: st.SearchStrategy[str]) -> st.SearchStrategy[list[Domain]]:
    values = st.tuples(*[WORDS] * (levels - 1), last)
    return st.lists(st.tuples(values, st.integers(1, 3)), max_size=30)


def size(assignment: TopologyAssignment) -> int:
    return len(msgspec.json.encode(assignment.to_wire()))


@given(domains=domains_of(3, WORDS), gate=st.booleans())
def test_any_values_come_back(domains: list[Domain], gate: bool) -> None:
    encoded = encode(["zone", "block", "rack"], domains, by_hostname_prefix=gate)
    assert decode(TopologyAssignment.from_wire(encoded.to_wire())) == domains
    assert domain_count(encoded) == len(domains)


@given(domains=domains_of(1, HOSTS))
def test_hostname_runs_come_back_and_are_never_longer_than_one_slice(domains: list[Domain]) -> None:
    by_prefix = encode([HOSTNAME_LABEL], domains)
    assert decode(by_prefix) == domains
    assert size(by_prefix) <= size(encode([HOSTNAME_LABEL], domains, by_hostname_prefix=False))


def test_alternating_pools_fall_back_to_fewer_slices() -> None:
    domains: list[Domain] = [((f"pool-{'ab'[i % 2]}-{i:05}",), 1) for i in range(2500)]
    encoded = encode([HOSTNAME_LABEL], domains)
    assert len(encoded.slices) == 1, "runs of length one would need more than 1000 slices"
    assert decode(encoded) == domains


@pytest.mark.parametrize(
    ("part", "field"),
    [
        pytest.param(
            {"domainCount": 2, "valuesPerLevel": [{"individual": {"roots": ["a"]}}], "podCounts": {"universal": 1}},
            "topologyAssignment.slices[0].valuesPerLevel[0].individual.roots",
            id="roots",
        ),
        pytest.param(
            {"domainCount": 2, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"individual": [1, 2, 3]}},
            "topologyAssignment.slices[0].podCounts.individual",
            id="pod counts",
        ),
        pytest.param(
            {"domainCount": 1, "valuesPerLevel": [{}], "podCounts": {"universal": 1}},
            "topologyAssignment.slices[0].valuesPerLevel[0].individual.roots",
            id="neither universal nor individual",
        ),
    ],
)
def test_lengths_that_disagree_are_named(part: dict[str, object], field: str) -> None:
    broken = TopologyAssignment.from_wire({"levels": ["a"], "slices": [part]})
    with pytest.raises(InvalidObject, match="domainCount is") as caught:
        decode(broken)
    assert caught.value.field == field


def test_values_of_other_levels_are_named() -> None:
    part = {"domainCount": 1, "valuesPerLevel": [{"universal": "a"}, {"universal": "b"}], "podCounts": {"universal": 1}}
    with pytest.raises(InvalidObject, match="there are 1") as caught:
        decode(TopologyAssignment.from_wire({"levels": ["a"], "slices": [part]}))
    assert caught.value.field == "topologyAssignment.slices[0].valuesPerLevel"
