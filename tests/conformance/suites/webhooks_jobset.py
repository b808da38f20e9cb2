"""Defaults and validation of JobSets; errors are compared whole, in any order.

The rules are those of webhooks_job.py, with the placement profile Compatible: placement groups are pairs.
"""

from __future__ import annotations

from typing import Any

from admission.webhook.kinds.jobset import JOBSET
from tests.conformance.suites.webhooks_job import assert_errors, defaulted, judged, rules_of


def run(case: dict[str, Any]) -> None:
    """TestDefault compares the object where it is given, always spec.managedBy; the others the errors."""
    given, want, rules = case["input"], case["want"], rules_of(case)
    if not case["name"].startswith("TestDefault/"):
        wanted = want.get("wantValidationErrs") or (want.get("wantErr") or {}).get("errors")
        assert_errors(judged(given, JOBSET, rules), wanted)
        return
    changed = defaulted(given["jobSet"], JOBSET, given, rules)
    if want["want"] is not None:
        assert changed == want["want"]
    if want["wantManagedBy"] is not None:
        assert changed["spec"]["managedBy"] == want["wantManagedBy"]
    elif "managedBy" not in (given["jobSet"].get("spec") or {}):
        assert "managedBy" not in (changed.get("spec") or {})
