"""ValidatingAdmissionPolicies: those that bound what our processes may write are there, bound, and unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, name_of, spec_of
from api.kube.resources import POLICIES, POLICY_BINDINGS

_KINDS: Final = {each.kind: each for each in (POLICIES, POLICY_BINDINGS)}
_DEFAULTS: Final[dict[str, Any]] = {"namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent"}
"""What the API server adds where a policy or a binding says what it matches."""


def _found(view: View) -> Iterator[Finding]:
    for path, wanted in view.expected.policies:
        there = view.named(_KINDS[wanted["kind"]], name_of(wanted))
        if there is None:
            what = "is missing"
        elif changed := sorted(key for key in spec_of(wanted) if _differs(key, spec_of(wanted)[key], spec_of(there))):
            what = f"differs in spec.{', spec.'.join(changed)}"
        elif wanted["kind"] == POLICY_BINDINGS.kind and "matchResources" not in spec_of(wanted) and _narrowed(there):
            what = "holds for some objects only (spec.matchResources)"
        else:
            continue
        command = view.command("apply", "--server-side", "--force-conflicts", "-f", str(path))
        if there is not None:  # what others have added to it stays when the manifest is applied
            command = f"{command} && {view.command('replace', '-f', str(path))}"
        yield Finding(f"{wanted['kind']} {name_of(wanted)}", what, command)


def _differs(key: str, wanted: Any, there: Obj) -> bool:
    given = there.get(key)
    if key == "validationActions":
        return "Deny" not in (given or ())
    if key in ("matchConstraints", "matchResources"):
        return _matching(wanted) != _matching(given or {})
    return bool(given != wanted)


def _narrowed(binding: Obj) -> bool:
    return _matching(spec_of(binding).get("matchResources") or {}) != _matching({})


def _matching(obj: Obj) -> Obj:
    """Returns what a policy or a binding matches, with the defaults of the API server."""
    rules = {
        key: [{"scope": "*", **rule} for rule in obj[key]]
        for key in ("resourceRules", "excludeResourceRules")
        if obj.get(key)
    }
    rest = {key: value for key, value in obj.items() if key not in ("resourceRules", "excludeResourceRules")}
    return {**_DEFAULTS, **rest, **rules}


CHECKS: Final = (
    Check(
        "policies",
        (POLICIES, POLICY_BINDINGS),
        "A ValidatingAdmissionPolicy of Stowage or its binding is missing, or differs from the manifest.",
        "Who holds the token of a process of Stowage may write more than that process writes: images of pods, for example.",
        "applies the manifest, and replaces what was edited",
        _found,
    ),
)
