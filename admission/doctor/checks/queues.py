"""ClusterQueues and LocalQueues: they lead to flavors."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, allocatable, flavor_quotas, name_of, namespace_of, spec_of
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NODES, RESOURCE_FLAVORS
from api.text.quantity import to_text


def _without_flavors(view: View) -> Iterator[Finding]:
    flavors = [name_of(each) for each in view.of(RESOURCE_FLAVORS)]
    for queue in view.of(CLUSTER_QUEUES):
        name = f"ClusterQueue {name_of(queue)}"
        if not list(flavor_quotas(queue)):
            yield Finding(name, "has no flavor", _with_flavor(view, queue, flavors))
        for at, missing in _missing(queue, flavors):
            yield Finding(
                name, f"names the ResourceFlavor {missing}, which does not exist", _mend(view, queue, at, missing)
            )


def _missing(queue: Obj, flavors: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the JSON path and name of each flavor that does not exist, the last one of a group first."""
    for group_at, group in enumerate(spec_of(queue).get("resourceGroups") or ()):
        for at, quota in reversed(list(enumerate(group.get("flavors") or ()))):
            if quota["name"] not in flavors:
                yield f"/spec/resourceGroups/{group_at}/flavors/{at}", str(quota["name"])


def _mend(view: View, queue: Obj, at: str, missing: str) -> str:
    """Returns the patch that replaces the flavor by that of the most similar name that the queue lacks, or else removes it."""
    named = [str(quota["name"]) for quota in flavor_quotas(queue)]
    free = [name_of(each) for each in view.of(RESOURCE_FLAVORS) if name_of(each) not in named]
    if close := difflib.get_close_matches(missing, free, 1, 0.0):
        change = [{"op": "replace", "path": f"{at}/name", "value": close[0]}]
    elif len(named) > 1:
        change = [{"op": "remove", "path": at}]
    else:
        return "# create the flavor: stowage topology init prints flavors for the nodes of the cluster"
    return view.command("patch", "clusterqueue", name_of(queue), "--type=json", "-p", json.dumps(change))


def _with_flavor(view: View, queue: Obj, flavors: Sequence[str]) -> str:
    """Returns the patch that gives the queue the capacity of the first unused flavor's nodes, or else of the first flavor's."""
    if not flavors:
        return "# create a flavor: stowage topology init prints flavors for the nodes of the cluster"
    chosen = next((name for name in flavors if name not in view.used_flavors), flavors[0])
    amounts = {name: amount for name, amount in allocatable(view.nodes_of[chosen]).items() if _counts(name)}
    amounts = amounts or {"cpu": 0}
    quotas = [{"name": name, "nominalQuota": to_text(name, amount)} for name, amount in sorted(amounts.items())]
    group = {"coveredResources": sorted(amounts), "flavors": [{"name": chosen, "resources": quotas}]}
    body = json.dumps({"spec": {"resourceGroups": [group]}})
    return view.command("patch", "clusterqueue", name_of(queue), "--type=merge", "-p", body)


def _counts(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.endswith("/gpu")


def _without_queue(view: View) -> Iterator[Finding]:
    for queue in view.of(LOCAL_QUEUES):
        target = str(spec_of(queue).get("clusterQueue") or "")
        if view.named(CLUSTER_QUEUES, target) is None:
            command = view.command("-n", namespace_of(queue), "delete", "localqueue", name_of(queue))
            name = f"LocalQueue {namespace_of(queue)}/{name_of(queue)}"
            yield Finding(name, f"leads to the ClusterQueue {target}, which does not exist", command)


CHECKS: Final = (
    Check(
        "queues-without-flavors",
        (CLUSTER_QUEUES, RESOURCE_FLAVORS, NODES),
        "A ClusterQueue has no flavor, or one that does not exist.",
        "It admits nothing: all of its workloads wait.",
        "gives the queue the flavor of the most similar name that it does not have yet, removes the name, or gives it what the "
        "nodes of a flavor have",
        _without_flavors,
    ),
    Check(
        "queues-without-target",
        (LOCAL_QUEUES, CLUSTER_QUEUES),
        "A LocalQueue leads to a ClusterQueue that does not exist.",
        "Jobs that name it wait for ever.",
        "deletes the LocalQueue (its ClusterQueue cannot be changed); create it again for another ClusterQueue",
        _without_queue,
    ),
)
