"""The codec both ways, and the encoding by hostname prefixes alone."""

from __future__ import annotations

from typing import Any

from api.assignment import Domain, _assignment, _prefix_runs, decode, domain_count, encode
from api.topology_assignment import TopologyAssignment
from tests.conformance.runner import Case, gates
from tests.conformance.suites.normal import normal

GATE = "TASAssignmentsEncodingByHostnamePrefix"


def run(case: Case) -> None:
    """`internal` in the input is to be encoded, `v1beta2` to be decoded."""
    if "v1beta2" in case["input"]:
        _decodes(case)
    else:
        _encodes(case)


def _encodes(case: Case) -> None:
    levels, domains = _plain(case["input"]["internal"])
    want, real = case["want"], (case.get("observed") or {}).get("V1Beta2From")
    encoded = encode(levels, domains, by_hostname_prefix=gates(case)[GATE]).to_wire()
    if "v1beta2PrefixRunsEncoding" in want:
        assert _assignment(levels, _prefix_runs(levels, domains)).to_wire() == want["v1beta2PrefixRunsEncoding"]
        assert encoded == real
    else:
        assert normal(encoded) == normal(want["v1beta2"])
    assert decode(TopologyAssignment.from_wire(encoded)) == domains


def _decodes(case: Case) -> None:
    want = case["want"]
    wire = TopologyAssignment.from_wire(case["input"]["v1beta2"])
    levels, domains = _plain(want["internal"])
    assert list(wire.levels) == levels
    assert decode(wire) == domains
    assert [count for _, count in decode(wire)] == want["podCounts"]
    assert domain_count(wire) == want["totalDomainCount"]


def _plain(internal: dict[str, Any]) -> tuple[list[str], list[Domain]]:
    domains = internal.get("domains") or ()
    return internal["levels"], [(tuple(domain["values"]), domain["count"]) for domain in domains]
