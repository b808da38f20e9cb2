"""The AdmissionChecks that ClusterQueues name, and the flavors for which they name them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, flavor_quotas, name_of, spec_of
from admission.engine.listed import listed
from api.kube.resources import ADMISSION_CHECKS, CLUSTER_QUEUES

_STRATEGY, _CHECKS, _FLAVORS = "admissionChecksStrategy", "admissionChecks", "onFlavors"
_ALIKE: Final = 0.6


def _missing_names(view: View) -> Iterator[Finding]:
    known = [name_of(check) for check in view.of(ADMISSION_CHECKS)]
    for queue in view.of(CLUSTER_QUEUES):
        rules: list[Obj] = (spec_of(queue).get(_STRATEGY) or {}).get(_CHECKS) or []
        names = [str(rule["name"]) for rule in rules]
        title = f"ClusterQueue {name_of(queue)}"
        if missing := [name for name in names if name not in known]:
            kept = _instead(names, known)
            rules_kept = [{**rule, "name": name} for rule, name in zip(rules, kept, strict=True) if name]
            plural, do = ("s", "do") if len(missing) > 1 else ("", "does")
            what = f"names the AdmissionCheck{plural} {listed(missing)}, which {do} not exist"
            yield Finding(title, what, _patch(view, queue, rules_kept))
            continue
        own = [str(quota["name"]) for quota in flavor_quotas(queue)]
        for at, rule in enumerate(rules):
            flavors = [str(name) for name in rule.get(_FLAVORS) or ()]
            if missing := [name for name in flavors if name not in own]:
                what = f"names the flavors {listed(missing)} for the AdmissionCheck {rule['name']}, and has no quota of them"
                yield Finding(title, what, _with_flavors(view, queue, rules, at, _instead(flavors, own)))


def _instead(names: Sequence[str], existing: Sequence[str]) -> list[str | None]:
    """Returns for each name itself if it is known, else the most similar known one that is not named yet, else None."""
    chosen: list[str | None] = []
    for name in names:
        free = [each for each in existing if each not in names and each not in chosen]
        close = difflib.get_close_matches(name, free, 1, _ALIKE)
        chosen.append(name if name in existing else next(iter(close), None))
    return chosen


def _with_flavors(view: View, queue: Obj, rules: Sequence[Obj], at: int, chosen: Sequence[str | None]) -> str:
    """Returns the patch of one check's flavors. A person decides if none is left: the check would be for all of them."""
    if not any(chosen):
        return (
            f"# in spec.{_STRATEGY} of the ClusterQueue {name_of(queue)} name flavors that it has, or remove the check"
        )
    changed = {**rules[at], _FLAVORS: [name for name in chosen if name]}
    return _patch(view, queue, [*rules[:at], changed, *rules[at + 1 :]])


def _patch(view: View, queue: Obj, rules: Sequence[Obj]) -> str:
    spec: dict[str, Any] = {_STRATEGY: {_CHECKS: list(rules)} if rules else None}
    return view.command("patch", "clusterqueue", name_of(queue), "--type=merge", "-p", json.dumps({"spec": spec}))


CHECKS: Final = (
    Check(
        "queues-without-checks",
        (CLUSTER_QUEUES, ADMISSION_CHECKS),
        "A ClusterQueue names an AdmissionCheck that does not exist, or for a flavor of which it has no quota.",
        "Without the AdmissionCheck the queue is inactive: all of its workloads wait. A flavor's workloads start unchecked if "
        "its name is misspelt.",
        "names the AdmissionCheck or flavor of the most similar name instead, or removes the name",
        _missing_names,
    ),
)
