"""Validates ResourceFlavors and Topologies: labels, taints, and levels that form a tree.

A flavor's levels are inline (`topology.levels`) or in a Topology that it names (`topologyName`), never both. Pure;
endpoints.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.webhook.kind_rules import InUseRules, KindRules
from admission.webhook.review_request import CREATE, Request
from admission.webhook.rules import spare_hosts
from admission.webhook.rules.fields import Errors, FieldPath, duplicate, forbidden, invalid, required
from admission.webhook.rules.formats import label_name, labels, subdomain, taints, tolerations
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.names import HOSTNAME_LABEL

Wire = Mapping[str, Any]

_SPEC: Final = FieldPath("spec")
MAX_LEVELS: Final = 16
_HOST_LAST: Final = f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology"


def _spec(obj: Wire) -> Wire:
    return obj.get("spec") or {}


def _going(obj: Wire) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def validate_flavor(flavor: Wire) -> Errors:
    """Returns the errors of a new ResourceFlavor."""
    spec = _spec(flavor)
    return [
        *labels(_SPEC.child("nodeLabels"), spec.get("nodeLabels")),
        *taints(_SPEC.child("nodeTaints"), spec.get("nodeTaints") or ()),
        *tolerations(_SPEC.child("tolerations"), spec.get("tolerations") or ()),
        *_topology_of(spec),
        *spare_hosts.of_flavor(flavor, spec),
    ]


def validate_flavor_update(old: Wire, new: Wire) -> Errors:
    """Returns the errors of an update: with a topology, its name, the node labels and the tolerations are immutable.

    Pods placed by the old labels and tolerations keep running, and after a change would count on the wrong nodes.
    """
    if _going(new):
        return []
    before, after = _spec(old), _spec(new)
    errors = validate_flavor(new)
    if before.get("topologyName") is None and before.get("topology") is None:
        return errors
    form = "topologyName" if before.get("topologyName") is not None else "topology"
    kept = ("topologyName", "nodeLabels", "tolerations") if form == "topologyName" else ("nodeLabels", "tolerations")
    for field in kept:
        if (before.get(field) or None) != (after.get(field) or None):
            errors.append(invalid(_SPEC.child(field), after.get(field), f"{field} is immutable when {form} is set"))
    return errors


def _topology_of(spec: Wire) -> Errors:
    name, inline = spec.get("topologyName"), spec.get("topology")
    if name is None and inline is None:
        return []
    errors = subdomain(_SPEC.child("topologyName"), name) if name is not None else []
    if name is not None and inline is not None:
        errors.append(forbidden(_SPEC.child("topology"), "may not be set when topologyName is set"))
    if not spec.get("nodeLabels"):
        errors.append(required(_SPEC.child("nodeLabels"), "at least one nodeLabel is required when topology is set"))
    return [*errors, *_levels(_SPEC.child("topology", "levels"), inline.get("levels") or ())] if inline else errors


def _levels(at: FieldPath, levels: Sequence[str], item: str = "") -> Errors:
    """Returns the errors of a list of levels, widest first; `item` is the field of an entry that holds the label key."""
    errors: Errors = []
    if not 1 <= len(levels) <= MAX_LEVELS:
        errors.append(invalid(at, len(levels), f"must have between 1 and {MAX_LEVELS} levels"))
    for i, level in enumerate(levels):
        path = at.item(i).child(item) if item else at.item(i)
        errors += label_name(path, level)
        if level in levels[:i]:
            errors.append(duplicate(path, level))
        if level == HOSTNAME_LABEL and i < len(levels) - 1:
            errors.append(invalid(path, level, _HOST_LAST))
    return errors


def validate_topology(topology: Wire) -> Errors:
    """Returns the errors of a new Topology."""
    return _levels(_SPEC.child("levels"), _keys(topology), "nodeLabel")


def validate_topology_update(old: Wire, new: Wire) -> Errors:
    """Returns the errors of an update. Levels may be added and removed, not reordered, while hosts stay the lowest level."""
    if _going(new):
        return []
    before, after = _keys(old), _keys(new)
    errors = validate_topology(new)
    if before != after and not (before[-1:] == after[-1:] == [HOSTNAME_LABEL]):
        rule = f"levels are mutable only when {HOSTNAME_LABEL} is the lowest level both before and after the change"
        errors.append(invalid(_SPEC.child("levels"), after, rule))
    elif [level for level in before if level in after] != [level for level in after if level in before]:
        errors.append(invalid(_SPEC.child("levels"), after, "levels may be added and removed, but not reordered"))
    return errors


def _keys(topology: Wire) -> list[str]:
    return [level.get("nodeLabel", "") for level in _spec(topology).get("levels") or ()]


class FlavorRules(InUseRules):
    """The rules of ResourceFlavors."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_flavor and validate_flavor_update."""
        return (
            validate_flavor(request.new)
            if request.operation == CREATE
            else validate_flavor_update(request.old, request.new)
        )


class TopologyRules(KindRules):
    """The rules of Topologies."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_topology and validate_topology_update."""
        if request.operation == CREATE:
            return validate_topology(request.new)
        return validate_topology_update(request.old, request.new)
