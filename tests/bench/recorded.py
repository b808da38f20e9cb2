"""What the API server itself wrote down of the pods of a benchmark, to the second.

A client that watches learns of a change when the server gets to telling it, and a busy one tells half a minute late; but each
pod says when it was created, and when it was last written to: that is when its gates were taken away.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from api.kube.client import Kube
from api.kube.resources import PODS

_UPDATE = "Update"
_PAGE = 1000


class _Manager(msgspec.Struct):
    """Who wrote to an object, and when last; the one that created it stands there, too."""

    operation: str
    time: datetime
    subresource: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime
    managed_fields: tuple[_Manager, ...] = ()


class _Pod(msgspec.Struct):
    metadata: _Meta


async def waits(kube: Kube, namespace: str) -> list[float]:
    """Seconds, for each pod of the namespace, from its creation until its gates went; 0 for one that had none.

    Right only where nobody else writes to the pods themselves; statuses and nodes are written by other ways.
    """
    found: list[float] = []
    token: str | None = None
    while True:
        page = await kube.list(PODS, namespace, decode=_Pod, limit=_PAGE, continue_=token)
        found += [_wait(pod.metadata) for pod in page.items]
        token = page.continue_
        if not token:
            return found


def _wait(meta: _Meta) -> float:
    writes = (each.time for each in meta.managed_fields if each.operation == _UPDATE and not each.subresource)
    return (max(writes, default=meta.creation_timestamp) - meta.creation_timestamp).total_seconds()
