"""Quotas against the nodes of their flavors: what is promised is there."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.doctor.checks.settings import installed_settings
from admission.doctor.devices import expected_amounts
from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, is_made, name_of, spec_of
from admission.engine.listed import listed
from api.errors import InvalidQuantity
from api.kube.resources import CLUSTER_QUEUES, COHORTS, CONFIG_MAPS, DEPLOYMENTS, NODES, RESOURCE_FLAVORS
from api.process.environment import BAD_SETTINGS
from api.text.quantity import to_int, to_text

_FAR: Final = 2
"""A quota of more than so many times what the nodes have is taken for a mistake by itself."""
_ALIKE: Final = 0.6
_MOST: Final = 10
"""Quotas that one command changes."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one resource in one flavor of a ClusterQueue or Cohort."""

    owner: Obj
    group: int
    """The index of its resource group."""
    at: int
    """The index of its flavor in the group."""
    number: int
    """The index of its resource in the flavor."""
    flavor: str
    resource: str
    nominal: int

    @property
    def path(self) -> str:
        """Its JSON path."""
        return f"/spec/resourceGroups/{self.group}/flavors/{self.at}/resources/{self.number}"

    @property
    def title(self) -> str:
        """The kind and name of its owner."""
        kind = COHORTS.kind if self.owner.get("kind") == COHORTS.kind else CLUSTER_QUEUES.kind
        return f"{kind} {name_of(self.owner)}"


def _quotas(view: View) -> Iterator[Quota]:
    """Yields the quotas above 0 of administrators' queues and cohorts, of flavors that select nodes."""
    owners = [each for kind in (CLUSTER_QUEUES, COHORTS) for each in view.of(kind) if not is_made(each)]
    for owner in owners:
        for group_at, group in enumerate(spec_of(owner).get("resourceGroups") or ()):
            for at, flavor in enumerate(group.get("flavors") or ()):
                for number, one in enumerate(flavor.get("resources") or ()):
                    name, nominal = str(one.get("name")), _amount(one)
                    if nominal and view.nodes_of.get(str(flavor.get("name"))):
                        yield Quota(owner, group_at, at, number, str(flavor["name"]), name, nominal)


def _amount(quota: Mapping[str, Any]) -> int:
    try:
        return to_int(str(quota.get("name")), quota.get("nominalQuota") or 0)
    except InvalidQuantity:
        return 0


def _computed(view: View) -> frozenset[str]:
    """Returns the resources that only the settings make: amounts of others are converted to them."""
    try:
        settings = installed_settings(view)
    except BAD_SETTINGS:
        return frozenset()
    outputs = settings.resources.transformations if settings else ()
    return frozenset(name for each in outputs for name in each.outputs)


# ---- a resource that no node has


def _of_no_node(view: View) -> Iterator[Finding]:
    computed = _computed(view)
    for quota in _quotas(view):
        there = expected_amounts(view.nodes_of[quota.flavor])
        if not there.get(quota.resource) and quota.resource not in computed:
            what = f"has quota of {quota.resource} in ResourceFlavor {quota.flavor}, and no node of it has any"
            yield Finding(quota.title, what, _otherwise(view, quota, there))


def _otherwise(view: View, quota: Quota, there: Mapping[str, int]) -> str:
    """Returns the command that names the most similar resource of the nodes instead, or else removes the quota."""
    group = spec_of(quota.owner)["resourceGroups"][quota.group]
    covered = [str(name) for name in group.get("coveredResources") or ()]
    flavors = group.get("flavors") or ()
    others = [str(each.get("name")) for each in flavors if each.get("name") != quota.flavor]
    if any(expected_amounts(view.nodes_of.get(name, ())).get(quota.resource) for name in others):
        return _patched(view, quota.owner, [{"op": "replace", "path": f"{quota.path}/nominalQuota", "value": "0"}])
    places = [_place(each, quota.resource) for each in flavors]
    if quota.resource not in covered or None in places:
        return f"# correct the resource {quota.resource} of {quota.title}"
    free = sorted(name for name, amount in there.items() if amount and name not in covered)
    at = f"/spec/resourceGroups/{quota.group}"
    if close := difflib.get_close_matches(quota.resource, free, 1, _ALIKE):
        names = [f"{at}/flavors/{number}/resources/{place}/name" for number, place in enumerate(places)]
        paths = (f"{at}/coveredResources/{covered.index(quota.resource)}", *names)
        return _patched(view, quota.owner, [{"op": "replace", "path": path, "value": close[0]} for path in paths])
    if len(covered) > 1:
        gone = [f"{at}/flavors/{number}/resources/{place}" for number, place in enumerate(places)]
        paths = (f"{at}/coveredResources/{covered.index(quota.resource)}", *gone)
        return _patched(view, quota.owner, [{"op": "remove", "path": path} for path in paths])
    return _patched(view, quota.owner, [{"op": "replace", "path": f"{quota.path}/nominalQuota", "value": "0"}])


def _place(flavor: Mapping[str, Any], resource: str) -> int | None:
    names = [one.get("name") for one in flavor.get("resources") or ()]
    return names.index(resource) if resource in names else None


# ---- more than there is


def _by_flavor(view: View) -> Iterator[tuple[str, str, int, Sequence[Quota]]]:
    """Yields each flavor and resource of which its nodes have some, how much that is, and the quotas of it."""
    quotas_of: defaultdict[tuple[str, str], list[Quota]] = defaultdict(list)
    for quota in _quotas(view):
        quotas_of[quota.flavor, quota.resource].append(quota)
    for (flavor, resource), quotas in sorted(quotas_of.items(), key=lambda row: row[0]):
        total = expected_amounts(view.nodes_of[flavor]).get(resource, 0)
        if total:
            yield flavor, resource, total, quotas


def _far_above(view: View) -> Iterator[Finding]:
    for flavor, resource, total, quotas in _by_flavor(view):
        for quota in quotas:
            if quota.nominal > _FAR * total:
                have = to_text(resource, total)
                what = f"has a quota of {_text(quota)} {resource} in ResourceFlavor {flavor}, whose nodes have {have}"
                change = {"op": "replace", "path": f"{quota.path}/nominalQuota", "value": have}
                yield Finding(quota.title, what, _patched(view, quota.owner, [change]))


def _promised(view: View) -> Iterator[Finding]:
    for flavor, resource, total, quotas in _by_flavor(view):
        promised = sum(quota.nominal for quota in quotas)
        if promised <= total or any(quota.nominal > _FAR * total for quota in quotas):
            continue
        owners = listed([f"{quota.title} {_text(quota)}" for quota in quotas])
        have = to_text(resource, total)
        what = f"its quotas promise {to_text(resource, promised)} {resource} ({owners}), and its nodes have {have}"
        yield Finding(f"ResourceFlavor {flavor}", what, _shared(view, quotas, total, promised))


def _shared(view: View, quotas: Sequence[Quota], total: int, promised: int) -> str:
    """Returns the commands that lower each quota to its part of what there is."""
    if len(quotas) > _MOST:
        return f"# lower the quotas of {listed([quota.title for quota in quotas])}"
    commands = []
    for quota in quotas:
        part = to_text(quota.resource, quota.nominal * total // promised)
        change = {"op": "replace", "path": f"{quota.path}/nominalQuota", "value": part}
        commands.append(_patched(view, quota.owner, [change]))
    return " && ".join(commands)


def _text(quota: Quota) -> str:
    return to_text(quota.resource, quota.nominal)


def _patched(view: View, owner: Obj, change: Collection[Mapping[str, str]]) -> str:
    kind = "cohort" if owner.get("kind") == COHORTS.kind else "clusterqueue"
    return view.command("patch", kind, name_of(owner), "--type=json", "-p", json.dumps(list(change)))


CHECKS: Final = (
    Check(
        "quotas-without-resource",
        (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, NODES, CONFIG_MAPS, DEPLOYMENTS),
        "A queue or cohort has quota of a resource that no node of the flavor has.",
        "Workloads that ask for it get quota and no place; those that ask for the right name find no quota.",
        "names the most similar resource of the nodes instead, or takes the quota away",
        _of_no_node,
    ),
    Check(
        "quotas-far-above-nodes",
        (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, NODES),
        f"One quota is more than {_FAR} times what the nodes of the flavor have.",
        "Workloads get quota and wait for places, and what is said of free capacity is wrong.",
        "sets the quota to what the nodes have",
        _far_above,
    ),
    Check(
        "quotas-promise-too-much",
        (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, NODES),
        "The quotas of a flavor are together more than its nodes have.",
        "Who comes late gets quota and no place, although the quota is its own.",
        "lowers each quota to its part of what the nodes have",
        _promised,
    ),
)
