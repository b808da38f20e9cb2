"""`stowage defrag --apply`: has the controller make the moves of a plan, and follows them to their end.

The command writes one annotation on the Topology (`stowage.dev/defragment-now`), which needs the right to patch it. The
controller plans for itself on what it sees then, takes all places in one step, writes the moves one after the other until one
can no longer be made, and answers in `stowage.dev/defragmented`. The command ends when every mover has left its old place.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Final

from admission.controllers.state import conditions
from api.errors import NotFound, StowageError
from api.kube.client import Kube, PatchKind
from api.kube.resources import RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS
from api.meta import is_true
from api.names import DEFRAGMENT_NOW, DEFRAGMENTED, MOVING
from api.reading import read_workload
from api.topology import ResourceFlavor, Topology

ANSWER_WITHIN: Final = 60.0
"""Seconds until the controller must have answered."""
END_WITHIN: Final = 900.0
"""Seconds until all movers must have left."""
_LOOK: Final = 1.0


class NotApplied(StowageError):
    """The moves were refused, or did not end."""


async def apply(kube: Kube, flavor: str, what: str, tell: Callable[[str], None]) -> None:
    """Has the moves made for `what` (`workload NAMESPACE/NAME` or `domain LEVEL`) on the flavor. Raises StowageErrors."""
    topology = (await kube.get(RESOURCE_FLAVORS, flavor, decode=ResourceFlavor)).spec.topology_name
    if topology is None:
        raise NotApplied(f"flavor {flavor} names no Topology object, which the request to the controller needs")
    movers, stays = await _asked(kube, topology, what)
    tell(f"the controller moves {len(movers)} workload(s)")
    until = time.monotonic() + END_WITHIN
    left = dict.fromkeys(movers)
    while left:
        for key in list(left):
            if (how := await _ended(kube, key)) is not None:
                del left[key]
                tell(f"  {key} {how}")
        if left and time.monotonic() > until:
            raise NotApplied(f"still on their way after {END_WITHIN:.0f} s: {', '.join(left)}")
        await asyncio.sleep(_LOOK if left else 0.0)
    if stays:
        raise NotApplied(f"the moves have stopped, since these have changed meanwhile, and stay: {', '.join(stays)}")


async def _asked(kube: Kube, topology: str, what: str) -> tuple[list[str], list[str]]:
    """Returns the movers that the controller names, and those that stay. Raises NotApplied if it refuses or is silent."""
    request = token_hex(8)
    body = {"metadata": {"annotations": {DEFRAGMENT_NOW: f"{request} {what}"}}}
    await kube.patch(TOPOLOGIES, topology, body, kind=PatchKind.MERGE)
    until = time.monotonic() + ANSWER_WITHIN
    while time.monotonic() < until:
        stored = await kube.get(TOPOLOGIES, topology, decode=Topology)
        identity, _, answer = stored.metadata.annotations.get(DEFRAGMENTED, "").partition(" ")
        if identity == request:
            state, _, rest = answer.partition(": ")
            if state != "Moving":
                raise NotApplied(f"the controller refused: {rest}")
            movers, _, stays = rest.partition("; ")
            return list(filter(None, movers.split(","))), list(filter(None, stays.removeprefix("stay: ").split(",")))
        await asyncio.sleep(_LOOK)
    raise NotApplied(f"the controller has not answered within {ANSWER_WITHIN:.0f} s")


async def _ended(kube: Kube, key: str) -> str | None:
    """Returns how the move of this workload ended; None while it is on its way."""
    namespace, _, name = key.partition("/")
    try:
        workload = await kube.get(WORKLOADS, name, namespace, decode=read_workload)
    except NotFound:
        return "is gone"
    if not conditions.is_running(workload.status):
        return "runs no longer: it has finished or was evicted"
    return None if is_true(workload.status.conditions, MOVING) else "has left its old place"
