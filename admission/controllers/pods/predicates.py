"""What a change of a pod or a Workload is to the controller of plain pods: whether it looks at all, and how soon. Pure.

Most changes of a pod that was started are steps on its way and ask for nothing: one look serves for all of them, so that a gang
costs few looks however busy the API server is. That a pod ends, goes, or is told something else is never a step.
"""

from __future__ import annotations

from typing import Final

from admission.integrations.pod import QueuedPod
from api.kube.store import Change, ChangeType
from api.workloads import Workload

_LOOKED_AT: Final = tuple(part for part in QueuedPod.__dataclass_fields__ if part not in ("metadata", "spec"))
_STEPS: Final = ("bound", "ready", "phase", "message", "last_active")
_OPENED: Final = ("gated", "topology_gated", "labels", "annotations")
_ASIDE_FROM_STEPS: Final = tuple(part for part in _LOOKED_AT if part not in _STEPS)
_ASIDE_FROM_OPENING: Final = tuple(part for part in _ASIDE_FROM_STEPS if part not in _OPENED)


def is_nothing(change: Change[QueuedPod]) -> bool:
    """Whether nothing has changed that a plan looks at."""
    return _is_alike(change, _LOOKED_AT)


def is_step(change: Change[QueuedPod], *, ours: bool) -> bool:
    """Whether a pod only came further: to a node, to run, to be ready or no more; through its gate, if `ours` is the hand that
    opens it. Its end is none."""
    new, old = change.object, change.old
    if old is None or new.gated or new.terminated or (old.gated and not ours):
        return False
    return _is_alike(change, _ASIDE_FROM_OPENING if old.gated else _ASIDE_FROM_STEPS)


def _is_alike(change: Change[QueuedPod], parts: tuple[str, ...]) -> bool:
    old, new = change.old, change.object
    if old is None or change.type is not ChangeType.MODIFIED or old.metadata.uid != new.metadata.uid:
        return False
    return all(getattr(old, part) == getattr(new, part) for part in parts)


def is_fresh(change: Change[Workload]) -> bool:
    """Whether it was created and no more yet. One that we made is as its pods ask, and its admission is what comes next."""
    return change.type is ChangeType.ADDED and not change.object.status.conditions
