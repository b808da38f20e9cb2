"""The patch that opens a gate."""

from __future__ import annotations

import msgspec
import pytest

from api.names import HOSTNAME_LABEL, TOPOLOGY_GATE
from api.pod.pods import Pod
from tests.builders import pod
from ungater.patches import opening_patch


def test_only_our_gate_is_named_so_that_others_stay() -> None:
    body = opening_patch(pod("p"), {"rack": "r1"}, None, clear_managers=True)
    assert body["spec"] == {
        "schedulingGates": [{"name": TOPOLOGY_GATE, "$patch": "delete"}],
        "nodeSelector": {"rack": "r1"},
    }


@pytest.mark.parametrize(
    ("operations", "clear", "erased"),
    [
        pytest.param(["Update", "Update"], True, True, id="written"),
        pytest.param([], True, True, id="unknown"),
        pytest.param(["Update", "Apply"], True, False, id="applied"),
        pytest.param([""], True, False, id="unreadable"),
        pytest.param(["Update"], False, False, id="off"),
    ],
)
def test_field_managers_are_erased_unless_a_client_applies_the_pod(
    operations: list[str], clear: bool, erased: bool
) -> None:
    fields = [{"manager": f"m{n}", "operation": each, "fieldsV1": {"f:spec": {}}} for n, each in enumerate(operations)]
    given = msgspec.convert({"metadata": {"name": "p", "managedFields": fields}}, Pod)
    body = opening_patch(given, {"rack": "r1"}, None, clear_managers=clear)
    assert body["metadata"].get("managedFields") == ([{}] if erased else None)


def test_a_single_host_is_named_in_every_required_term() -> None:
    """Terms are ORed: a term left alone would let the pod go elsewhere."""
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": [kind]}]} for kind in ("a", "b")]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    with_terms = msgspec.structs.replace(
        pod("p"),
        spec=msgspec.convert({"affinity": affinity, "schedulingGates": [{"name": TOPOLOGY_GATE}]}, type(Pod().spec)),
    )
    body = msgspec.json.decode(
        msgspec.json.encode(opening_patch(with_terms, {HOSTNAME_LABEL: "h1"}, "node-1", clear_managers=True))
    )
    required = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    by_name = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    assert required["nodeSelectorTerms"] == [{**term, "matchFields": [by_name]} for term in terms]
