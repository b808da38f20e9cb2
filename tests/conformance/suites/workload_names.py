"""workload_names: owner in, name of its Workload out."""

from __future__ import annotations

from typing import Any

from admission.integrations.names import variant_name, workload_name
from api.kube.resources import Resource
from tests.conformance import runner


def run(case: dict[str, Any]) -> None:
    """The wanted name is exact or a prefix; what Kueue really gave is always compared too."""
    given, want = case["input"], case["want"]
    gvk = given["ownerGVK"]
    kind = Resource(gvk["Group"], gvk["Version"], f"{gvk['Kind'].lower()}s", gvk["Kind"])
    short = runner.gates(case)["ShortWorkloadNames"]
    if "flavor" in given:
        name = variant_name(given["parentName"], kind, given["ownerUID"], given["flavor"], short=short)
    else:
        name = workload_name(kind, given["ownerName"], given["ownerUID"], extra=given["extra"], short=short)
    assert name == (want["want"] or case["observed"]["name"])
    assert name.startswith(want.get("wantPrefix") or "")
    assert name == case["observed"]["name"]
