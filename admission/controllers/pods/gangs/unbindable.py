"""What keeps a member of a gang from being bound although its gang may start: a gate of somebody else, a claim without volume.

Such a member does not count toward the minimum and is no part of the gang's Workload, so no gate of a gang opens whose minimum
cannot be bound. It joins once nothing holds it. Pure; part of `gangs`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from admission.controllers.pods.gangs.gang import GangTerms, shortage
from admission.controllers.watch.volumes.pod_claims import volumes_of
from admission.integrations.pods.pod import QueuedPod
from api.meta import object_key

LOOK_AGAIN: Final = 5.0
"""Seconds until a gang with a claim that has no volume is looked at again."""
_SHOWN: Final = 3

ClaimProblem = Callable[[str], str | None]
"""As `JobContext.claim_problem`."""


def held_members(pods: Iterable[QueuedPod], claim_problem: ClaimProblem) -> dict[str, str]:
    """Returns what holds the held members, by pod key."""
    return {pod.key: why for pod in pods if (why := _held_by(pod, claim_problem)) is not None}


def short_of_members(count: int, held: Sequence[str], terms: GangTerms) -> str | None:
    """Returns why a gang waits if nothing holds `count` members and something holds others; None if it has enough."""
    why = shortage(count, terms)
    return (
        why if why is None or not held or terms.minimum is None else f"{why} that nothing else holds: {_in_words(held)}"
    )


def looks_again(pods: Iterable[QueuedPod], held: Container[str]) -> bool:
    """Reports whether a claim holds a pod, whose changes no watch tells."""
    return any(pod.key in held and not pod.foreign_gate for pod in pods)


def _held_by(pod: QueuedPod, claim_problem: ClaimProblem) -> str | None:
    """Returns what holds a member that Stowage has not started, or None."""
    if not pod.gated or not pod.lasting:
        return None
    if pod.foreign_gate:
        return f"pod {pod.metadata.name} has the scheduling gate {pod.foreign_gate}"
    for key in _claims(pod):
        if (why := claim_problem(key)) is not None:
            return f"pod {pod.metadata.name}: {why}"
    return None


def _claims(pod: QueuedPod) -> Sequence[str]:
    if pod.spec is None or b"persistentVolumeClaim" not in pod.spec:
        return ()
    sources = (volume.get("persistentVolumeClaim") for volume in volumes_of({"spec": pod.read_spec()}))
    named = [source.get("claimName") for source in sources if isinstance(source, dict)]
    return [object_key(pod.metadata.namespace, name) for name in named if isinstance(name, str)]


def _in_words(reasons: Sequence[str]) -> str:
    """Returns the reasons as one text, which names the first few."""
    return "; ".join(reasons[:_SHOWN]) + (f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else "")
