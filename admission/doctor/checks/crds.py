"""CustomResourceDefinitions: present, with the versions and fields of this release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, condition, spec_of
from admission.engine.listed import listed
from api.kube.resources import CRDS


def _found(view: View) -> Iterator[Finding]:
    for path, wanted in view.expected.crds.items():
        name = wanted["metadata"]["name"]
        there = view.named(CRDS, name)
        for what in _faults(wanted, there):
            yield Finding(f"CustomResourceDefinition {name}", what, _apply(view, path))


def _apply(view: View, path: Path) -> str:
    return view.command("apply", "--server-side", "--force-conflicts", "-f", str(path))


def _faults(wanted: Obj, there: Obj | None) -> Iterator[str]:
    if there is None:
        yield "is missing"
        return
    versions = {version["name"]: version for version in spec_of(there).get("versions") or ()}
    for version in spec_of(wanted)["versions"]:
        name, given = version["name"], versions.get(version["name"], {})
        if version["served"] and not given.get("served"):
            yield f"does not serve {name}"
            continue
        if version["storage"] and not given.get("storage"):
            stored = [other for other, one in versions.items() if one.get("storage")]
            yield f"stores {listed(stored)} instead of {name}"
        missing = sorted(_fields(_schema(version)) - _fields(_schema(given)))
        if missing:
            yield f"{name} lacks the fields {listed(missing)}"
    strategy = (spec_of(there).get("conversion") or {}).get("strategy")
    if (expected := (spec_of(wanted).get("conversion") or {}).get("strategy")) and strategy != expected:
        yield f"has the conversion {strategy or 'None'} instead of {expected}"
    if (established := condition(there, "Established")).get("status") == "False":
        yield f"is not established: {established.get('message')}"


def _schema(version: Obj) -> Any:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _fields(schema: Any, above: str = "", depth: int = 0) -> set[str]:
    """Returns the paths of all fields, `[]` for items of lists."""
    paths: set[str] = set()
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return paths
    for name, field in (schema.get("properties") or {}).items():
        path = f"{above}.{name}" if above else name
        paths |= {path} | _fields(field, path, depth + 1)
    return paths | _fields(schema.get("items"), f"{above}[]", depth + 1)


_DEEPEST: Final = 32
CHECKS: Final = (
    Check(
        "crds",
        (CRDS,),
        "A CustomResourceDefinition is missing, or it is that of another release or of Kueue: a version is not served, "
        "another one is stored, or fields are missing.",
        "The API server drops fields that a CRD lacks, and refuses versions that it does not serve.",
        "applies the CRD of this release",
        _found,
    ),
)
