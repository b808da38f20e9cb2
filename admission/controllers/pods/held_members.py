"""What keeps a member of a gang from being bound although its gang may start: a gate of somebody else, a claim without volume.

Such a member does not count toward the minimum and is no part of the gang's Workload, so no gate of a gang opens whose minimum
cannot be bound. It joins once nothing holds it. Pure; part of `gangs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admission.controllers.jobs.context import JobContext
from admission.controllers.volumes.pod_claims import volumes_of
from admission.integrations.pod import QueuedPod
from api.meta import object_key

LOOK_AGAIN: Final = 5.0
"""Seconds until a gang with a claim that has no volume is looked at again."""
_SHOWN: Final = 3


def held_by(pod: QueuedPod, context: JobContext) -> str | None:
    """Returns what holds a member that Stowage has not started, or None."""
    if not pod.gated or not pod.lasting:
        return None
    if pod.foreign_gate:
        return f"pod {pod.metadata.name} has the scheduling gate {pod.foreign_gate}"
    for key in _claims(pod):
        if (why := context.claim_problem(key)) is not None:
            return f"pod {pod.metadata.name}: {why}"
    return None


def _claims(pod: QueuedPod) -> Sequence[str]:
    if pod.spec is None or b"persistentVolumeClaim" not in pod.spec:
        return ()
    sources = (volume.get("persistentVolumeClaim") for volume in volumes_of({"spec": pod.read_spec()}))
    named = [source.get("claimName") for source in sources if isinstance(source, dict)]
    return [object_key(pod.metadata.namespace, name) for name in named if isinstance(name, str)]


def in_words(reasons: Sequence[str]) -> str:
    """Returns the reasons as one text, which names the first few."""
    return "; ".join(reasons[:_SHOWN]) + (f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else "")
