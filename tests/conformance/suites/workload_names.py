"""workload_names: owner in, name of its Workload out."""

from __future__ import annotations

from typing import Any

from admission.integrations.names import _with_hash, workload_name
from api.kube.resources import Resource
from tests.conformance import runner


def run(case: dict[str, Any]) -> None:
    """The wanted name is exact or a prefix; what Kueue really gave is always compared too."""
    given, want = case["input"], case["want"]
    gvk = given["ownerGVK"]
    kind = Resource(gvk["Group"], gvk["Version"], f"{gvk['Kind'].lower()}s", gvk["Kind"])
    short = runner.gates(case)["ShortWorkloadNames"]
    if "flavor" in given:
        name = _variant_name(given["parentName"], kind, given["ownerUID"], given["flavor"], short=short)
    else:
        name = workload_name(kind, given["ownerName"], given["ownerUID"], extra=given["extra"], short=short)
    assert name == (want["want"] or case["observed"]["name"])
    assert name.startswith(want.get("wantPrefix") or "")
    assert name == case["observed"]["name"]


def _variant_name(parent: str, kind: Resource, uid: str, flavor: str, *, short: bool) -> str:
    """One flavor's variant of the Workload `parent`. Variants are not supported: their names test how ours are cut."""
    stem = parent.rpartition("-")[0] or parent
    return _with_hash(f"{stem}-variant-{flavor}", (kind.kind, kind.group, parent, uid, flavor), short)
