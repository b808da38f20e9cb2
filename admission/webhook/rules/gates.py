"""Admission gates: the annotation `admission-gated-by`, a comma-separated list that other controllers empty name by name.

It may be set at creation and only shrink afterwards. Pure; jobs and Workloads share the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.formats import gate_name
from api import names

_AT: Final = FieldPath("metadata").child("annotations").key(names.ADMISSION_GATED_BY)


def admission_gates(metadata: Mapping[str, Any]) -> list[str]:
    """Returns the gates of the annotation in order, without surrounding blanks."""
    text = (metadata.get("annotations") or {}).get(names.ADMISSION_GATED_BY, "")
    return [gate.strip() for gate in text.split(",")] if text.strip() else []


def validate(metadata: Mapping[str, Any]) -> Errors:
    """Returns the errors of the gates' names."""
    errors: Errors = []
    seen: set[str] = set()
    for gate in admission_gates(metadata):
        errors += gate_name(_AT, gate)
        if gate in seen:
            text = metadata["annotations"][names.ADMISSION_GATED_BY]
            errors.append(invalid(_AT, text, f"duplicate gate name: {gate}"))
        seen.add(gate)
    return errors


def validate_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> Errors:
    """Returns an error if an update adds a gate."""
    before, after = set(admission_gates(old)), set(admission_gates(new))
    if after <= before:
        return []
    if not before:
        return [forbidden(_AT, "cannot add admission gate after creation")]
    return [forbidden(_AT, "can only remove gates, not add new ones")]
