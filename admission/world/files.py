"""Builds a world from files: nodes, topologies, flavors, queues, and jobs that are present at the start or arrive later.

The start time is the latest transition time in the status of the files' Workloads (as in a copy of a live cluster). Without
any it is the first creationTimestamp of a job or an unbound pod, else 0. Objects created by then are present at the start,
others arrive later; the annotation `stowage.dev/simulated-arrival` counts from the start.

`faults` names each object that cannot be used; the rest is loaded. In place of the API server: the default namespace is
`default`; a namespace without an object has its name label; a node without conditions is Ready; a missing hostname label is
the node's name, and a missing OS label is Linux; a missing UID is the object's position in the files, which orders equal
workloads. In place of controllers: elastic quotas become queues (elastic_quotas.py), Deployments and other owners become pods
(template_pods.py), and unbound pods become Workloads (pod_units.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from admission.world.builder import Builder
from admission.world.documents import Document, Unreadable, documents
from admission.world.objects import Objects
from admission.world.rules import WorldRules
from admission.world.snapshot import decode, from_snapshot, is_snapshot
from admission.world.world import World


def from_files(paths: Sequence[Path], rules: WorldRules | None = None) -> World:
    """Returns the world of these files, or that of a snapshot. Raises Unreadable, or InvalidObject for a bad snapshot."""
    return load_files(paths, rules)[0]


def load_files(paths: Sequence[Path], rules: WorldRules | None = None) -> tuple[World, Objects | None]:
    """Returns the world like `from_files`, and its objects for callers that add to them; None for a snapshot."""
    listed = list(documents(paths))
    for document in listed:
        if is_snapshot(document.object):
            if len(listed) > 1:
                raise Unreadable(
                    f"{document.where}: a snapshot contains the whole state: no other object can be given with it"
                )
            return from_snapshot(decode(msgspec.json.encode(document.object), document.where)), None
    builder = Builder.empty(rules)
    return builder.build(listed), builder.objects


def from_documents(documents: Iterable[Document], rules: WorldRules | None = None) -> World:
    """Returns the world of these documents."""
    return Builder.empty(rules).build(documents)


def add_jobs(world: World, objects: Objects, documents: Iterable[Document]) -> list[str]:
    """Adds jobs to a world, pending from `now` on. Returns the keys of their Workloads in order."""
    return Builder(world, objects, "zz-added-").add_jobs(documents)
