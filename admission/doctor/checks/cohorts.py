"""Cohorts in which a queue can get no quota."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, allocatable, condition, is_made, name_of, spec_of, status_of
from api.errors import InvalidQuantity
from api.kube.resources import CLUSTER_QUEUES, COHORTS, NODES, RESOURCE_FLAVORS
from api.names import ACTIVE
from api.text.quantity import to_int, to_text

_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class _Quota:
    """Quota of one resource in one flavor of a queue; `path` is its JSON path."""

    path: str
    flavor: str
    resource: str
    nominal: int
    borrowing: int | None
    lending: int | None

    @property
    def lent(self) -> int:
        return self.nominal if self.lending is None else min(self.nominal, self.lending)


def _quotas(queue: Obj) -> Iterator[_Quota]:
    for group_at, group in enumerate(spec_of(queue).get("resourceGroups") or ()):
        for at, quota in enumerate(group.get("flavors") or ()):
            for number, one in enumerate(quota.get("resources") or ()):
                path = f"/spec/resourceGroups/{group_at}/flavors/{at}/resources/{number}"
                amounts = (_amount(one, key) for key in ("nominalQuota", "borrowingLimit", "lendingLimit"))
                nominal, borrowing, lending = amounts
                yield _Quota(path, str(quota.get("name")), str(one.get("name")), nominal or 0, borrowing, lending)


def _amount(of: Mapping[str, Any], key: str) -> int | None:
    """Returns an amount, cpu in milli-units; None if it is not set or cannot be read."""
    try:
        return None if of.get(key) is None else to_int(str(of.get("name")), of[key])
    except InvalidQuantity:
        return None


def _root(view: View, cohort: str) -> str:
    for _ in range(_DEEPEST):
        parent = spec_of(view.named(COHORTS, cohort)).get("parentName")
        if not parent:
            break
        cohort = str(parent)
    return cohort


@dataclass(frozen=True, slots=True)
class _Member:
    """A ClusterQueue or Cohort of a tree, what it owns and what it borrows."""

    obj: Obj
    quotas: list[_Quota]
    borrowed: Mapping[tuple[str, str], int]


def _trees(view: View) -> Mapping[str, Sequence[_Member]]:
    """Returns the ClusterQueues and Cohorts of each tree of cohorts, by the name of any of its cohorts."""
    roots: dict[str, str] = {}
    trees: defaultdict[str, list[_Member]] = defaultdict(list)
    above = [(str(own), queue) for queue in view.of(CLUSTER_QUEUES) if (own := spec_of(queue).get("cohortName"))]
    for cohort, each in (*above, *((name_of(cohort), cohort) for cohort in view.of(COHORTS))):
        if cohort not in roots:
            roots[cohort] = _root(view, cohort)
        trees[roots[cohort]].append(_Member(each, list(_quotas(each)), _usage(each, "borrowed")))
    return {cohort: trees[root] for cohort, root in roots.items()}


def _starving(view: View) -> Iterator[Finding]:
    trees = _trees(view)
    for queue in (each for each in view.of(CLUSTER_QUEUES) if not is_made(each)):
        own = list(_quotas(queue))
        members = trees.get(str(spec_of(queue).get("cohortName")), ())
        if own and not any(quota.nominal for quota in own):
            yield from _without_any(view, queue, own, members)
        elif (spec_of(queue).get("preemption") or {}).get("reclaimWithinCohort", "Never") == "Never":
            yield from _without_its_own(view, queue, own, members)


def _without_any(view: View, queue: Obj, own: list[_Quota], members: Sequence[_Member]) -> Iterator[Finding]:
    """A queue that owns nothing and can borrow nothing from the others of its tree."""
    wanted = {(quota.flavor, quota.resource) for quota in own}
    lenders = [
        (each.obj, quota)
        for each in members
        if each.obj is not queue
        for quota in each.quotas
        if (quota.flavor, quota.resource) in wanted
    ]
    lent = {(quota.flavor, quota.resource) for _, quota in lenders if quota.lent}
    if any((quota.flavor, quota.resource) in lent and quota.borrowing != 0 for quota in own):
        return
    name = f"ClusterQueue {name_of(queue)}"
    if lent:
        change = [{"op": "remove", "path": f"{quota.path}/borrowingLimit"} for quota in own if quota.borrowing == 0]
        yield Finding(name, "owns no quota and may borrow none (borrowingLimit 0)", _patch(view, queue, change))
        return
    rich = [(each, quota) for each, quota in lenders if quota.nominal]
    if rich:
        lender = max(rich, key=lambda row: (row[1].nominal, name_of(row[0])))[0]
        change = [{"op": "remove", "path": f"{q.path}/lendingLimit"} for each, q in rich if each is lender]
        yield Finding(name, "owns no quota, and its cohort lends none (lendingLimit 0)", _patch(view, lender, change))
        return
    change = [{"op": "replace", "path": f"{q.path}/nominalQuota", "value": _capacity(view, q)} for q in own]
    yield Finding(name, "owns no quota, and nobody in its cohort has any", _patch(view, queue, change))


def _capacity(view: View, quota: _Quota) -> str:
    """Returns what the nodes of the quota's flavor have of its resource."""
    amounts = allocatable(view.nodes_of.get(quota.flavor, ()))
    return to_text(quota.resource, amounts.get(quota.resource, 0))


def _without_its_own(view: View, queue: Obj, own: list[_Quota], members: Sequence[_Member]) -> Iterator[Finding]:
    """A queue with waiting workloads that may not reclaim its own quota, which others borrow."""
    if not status_of(queue).get("pendingWorkloads"):
        return
    used = _usage(queue, "total")
    idle = {(q.flavor, q.resource) for q in own if q.nominal > used.get((q.flavor, q.resource), 0)}
    borrowers = [each.obj for each in members if each.obj is not queue and any(each.borrowed.get(key) for key in idle)]
    if borrowers:
        body = json.dumps({"spec": {"preemption": {"reclaimWithinCohort": "Any"}}})
        command = view.command("patch", "clusterqueue", name_of(queue), "--type=merge", "-p", body)
        names = ", ".join(name_of(each) for each in borrowers[:3])
        what = (
            f"has waiting workloads; {names} borrowed its quota, which it may not take back (reclaimWithinCohort Never)"
        )
        yield Finding(f"ClusterQueue {name_of(queue)}", what, command)


def _usage(queue: Obj, key: str) -> dict[tuple[str, str], int]:
    usage = {}
    for flavor in status_of(queue).get("flavorsReservation") or ():
        for one in flavor.get("resources") or ():
            usage[str(flavor.get("name")), str(one.get("name"))] = _amount(one, key) or 0
    return usage


def _patch(view: View, obj: Obj, change: list[dict[str, str]]) -> str:
    kind = "cohort" if obj.get("kind") == COHORTS.kind else "clusterqueue"
    return view.command("patch", kind, name_of(obj), "--type=json", "-p", json.dumps(change))


def _cycles(view: View) -> Iterator[Finding]:
    for cohort in view.of(COHORTS):
        said = condition(cohort, ACTIVE)
        if said.get("status") == "False":
            command = view.command(
                "patch", "cohort", name_of(cohort), "--type=merge", "-p", '{"spec":{"parentName":null}}'
            )
            yield Finding(f"Cohort {name_of(cohort)}", f"is not in use: {said.get('message')}", command)
            return  # removing one link opens the cycle for all


CHECKS: Final = (
    Check(
        "cohorts-starve",
        (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, NODES),
        "A ClusterQueue owns no quota and can borrow none, or its workloads wait while others borrow its quota and it may not "
        "take it back.",
        "Its workloads wait for ever, or for as long as those of others run.",
        "lifts the limit that keeps quota from the queue, gives it what its nodes have, or allows it to reclaim its quota",
        _starving,
    ),
    Check(
        "cohorts-cycle",
        (COHORTS,),
        "Cohorts are each other's parents.",
        "No queue below them admits anything.",
        "removes the parent of one of them",
        _cycles,
    ),
)
