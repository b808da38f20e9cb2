"""Classifies changes of pods and Workloads: whether the pod controller must reconcile, and how soon. Pure.

Most changes of a started pod are progress that requires no action, and one reconcile serves many of them, so that a gang needs
few reconciles however busy the API server is. The end or deletion of a pod, or new metadata, is never mere progress.
"""

from __future__ import annotations

from typing import Final

from admission.integrations.pods.pod import QueuedPod
from api.kube.informers.store import Change, ChangeType
from api.workloads import Workload

_LOOKED_AT: Final = tuple(part for part in QueuedPod.__dataclass_fields__ if part not in ("metadata", "spec"))
_STEPS: Final = ("bound", "ready", "phase", "message", "last_active")
_OPENED: Final = ("gated", "topology_gated", "labels", "annotations", "own_labels")
_ASIDE_FROM_STEPS: Final = tuple(part for part in _LOOKED_AT if part not in _STEPS)
_ASIDE_FROM_OPENING: Final = tuple(part for part in _ASIDE_FROM_STEPS if part not in _OPENED)


def is_irrelevant(change: Change[QueuedPod]) -> bool:
    """Reports whether nothing changed that a plan reads."""
    return _is_equal(change, _LOOKED_AT)


def is_pod_progress(change: Change[QueuedPod], *, ours: bool) -> bool:
    """Reports whether a pod only progressed: it was bound, runs, or its readiness changed.

    The removal of its gate counts too if `ours`, that is, if this controller removed it. Its end does not.
    """
    new, old = change.object, change.old
    if old is None or new.gated or new.terminated or (old.gated and not ours):
        return False
    return _is_equal(change, _ASIDE_FROM_OPENING if old.gated else _ASIDE_FROM_STEPS)


def _is_equal(change: Change[QueuedPod], parts: tuple[str, ...]) -> bool:
    old, new = change.old, change.object
    if old is None or change.type is not ChangeType.MODIFIED or old.metadata.uid != new.metadata.uid:
        return False
    return all(getattr(old, part) == getattr(new, part) for part in parts)


def is_creation(change: Change[Workload]) -> bool:
    """Reports whether the Workload was just created; its admission comes next, so nothing is due."""
    return change.type is ChangeType.ADDED and not change.object.status.conditions
