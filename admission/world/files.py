"""A world from files: nodes, topologies, flavors, queues, and jobs that are there already or come later.

The beginning. Where Workloads stand in the files with what became of them (a copy of a live cluster), it is the latest moment
that any of them tells of; else the first creationTimestamp of a job or of a pod that waits; without any, 0. What was created
by then is there at the beginning, anything else is an arrival; the annotation `stowage.dev/simulated-arrival` counts from the
beginning.

`faults` names each object that cannot be used, and the rest is loaded. In place of the API server: namespace `default`, a
namespace without an object has its name as label, a node without conditions is ready, a missing hostname label is the node's
name, its system Linux, a missing UID is the place in the files (which is how equals are ordered). In place of controllers:
elastic quotas become queues (elastic.py), Deployments and their like pods (template_pods.py), pods that no node holds Workloads
(pod_units.py).
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
    """The world of these files; of one that is a snapshot, as it says itself. Raises Unreadable, InvalidObject (snapshot)."""
    return load_files(paths, rules)[0]


def load_files(paths: Sequence[Path], rules: WorldRules | None = None) -> tuple[World, Objects | None]:
    """As `from_files`, with the objects, for callers that add to them; a snapshot has none."""
    found = list(documents(paths))
    for document in found:
        if is_snapshot(document.object):
            if len(found) > 1:
                raise Unreadable(f"{document.where}: a snapshot is a whole world: nothing can stand beside it")
            return from_snapshot(decode(msgspec.json.encode(document.object), document.where)), None
    builder = Builder.of_nothing(rules)
    return builder.build(found), builder.objects


def from_documents(found: Iterable[Document], rules: WorldRules | None = None) -> World:
    """The world of these objects."""
    return Builder.of_nothing(rules).build(found)


def add_jobs(world: World, objects: Objects, found: Iterable[Document]) -> list[str]:
    """Jobs on top of a world that is there: pending from `now` on. Tells their keys, in order."""
    return Builder(world, objects, "zz-added-").add_jobs(found)
