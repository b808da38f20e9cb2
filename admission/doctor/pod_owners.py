"""Follows the controllers above pods that name no Workload, from Job to JobSet, say. Bounded: tenants can make up owners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from admission.doctor.belonging import DEPTH
from admission.doctor.pod_facts import Owner, PodFacts
from api.errors import ApiError, InvalidObject, NotFound
from api.kube.client import Kube
from api.kube.resources import JOBS, STATEFUL_SETS, Resource

MOST_OWNERS: Final = 500
"""Owners that are looked up."""
_AT_ONCE: Final = 16
_REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    owner_references: tuple[Owner, ...] = ()


class _Object(msgspec.Struct):
    metadata: _Meta


@dataclass
class Followed:
    """`parents` maps the UID of an owner to that of its controller, empty if it has none or is not what it says to be."""

    parents: dict[str, str] = field(default_factory=dict)
    unfollowed: set[str] = field(default_factory=set)
    gap: str = ""


async def follow(kube: Kube, pods: Iterable[PodFacts], resources: Iterable[Resource]) -> Followed:
    """Looks up the controllers of pods that have a label of workloads and name none, level by level."""
    by_name = {(one.group, one.kind): one for one in (*resources, JOBS, STATEFUL_SETS, _REPLICA_SETS)}
    followed, asked, slots = Followed(), 0, asyncio.Semaphore(_AT_ONCE)
    wanted = {
        pod.owner.uid: (pod.namespace, pod.owner)
        for pod in pods
        if pod.managed and not pod.workload and pod.owner is not None and pod.owner.uid
    }
    for _ in range(DEPTH - 1):
        todo = [(uid, *wanted[uid]) for uid in sorted(wanted) if uid not in followed.parents]
        some, rest = todo[: MOST_OWNERS - asked], todo[MOST_OWNERS - asked :]
        asked += len(some)
        if rest:
            followed.unfollowed |= {uid for uid, _, _ in rest}
            followed.gap = f"only {MOST_OWNERS} were looked up"
        answers = await asyncio.gather(*(_controller(kube, by_name, *one[1:], followed, slots) for one in some))
        wanted = {}
        for (uid, namespace, _), above in zip(some, answers, strict=True):
            followed.parents[uid] = "" if above is None else above.uid
            if above is not None:
                wanted[above.uid] = (namespace, above)
    return followed


async def _controller(
    kube: Kube,
    kinds: Mapping[tuple[str, str], Resource],
    namespace: str,
    owner: Owner,
    followed: Followed,
    slots: asyncio.Semaphore,
) -> Owner | None:
    """Returns the controller of an owner; None if there is none, or if the object has another UID."""
    group, slash, _ = owner.api_version.partition("/")
    resource = kinds.get((group if slash else "", owner.kind))
    if resource is None or not resource.namespaced:
        return None
    try:
        async with slots:
            read = await kube.get(resource, owner.name, namespace, decode=msgspec.json.Decoder(_Object).decode)
    except NotFound:
        return None
    except (ApiError, InvalidObject, ValueError) as failed:
        followed.unfollowed.add(owner.uid)
        followed.gap = f"{resource.plural}.{resource.group}: {' '.join(str(failed).split())}"
        return None
    if read.metadata.uid != owner.uid:
        return None
    return next((each for each in read.metadata.owner_references if each.controller and each.uid), None)
