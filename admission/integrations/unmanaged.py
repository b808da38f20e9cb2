"""Composes the notice about an object that names a queue though Stowage does not manage its kind. Pure.

Without the notice a job of such a kind would silently start outside every quota. The webhook process publishes it as an event
and as a warning to the user who writes the object (webhook/endpoints.py, notices.py); `stowage explain` and `simulate` print
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.owners import is_managed_kind, managed_kinds
from api.names import COSCHEDULING, COSCHEDULING_SIGS, GROUP, QUEUE_NAME_LABEL, STOWAGE

REASON: Final = "KindNotManaged"
PASSED_GROUPS: Final = (
    *(GROUP, STOWAGE, COSCHEDULING, COSCHEDULING_SIGS),
    *(f"{name}.k8s.io" for name in ("authorization", "coordination", "discovery", "events", "networking")),
    *(f"{name}.k8s.io" for name in ("rbac.authorization", "resource", "scheduling", "storage")),
)
"""API groups without namespaced kinds that have pods: Stowage's, Kueue's, coscheduling's, and the API server's dotted
groups."""


def notice(obj: Mapping[str, Any]) -> str | None:
    """Returns the notice, or None if the object names no queue or its queue name takes effect.

    An object with a controller gets no notice: the queue name of its topmost owner counts.
    """
    kind, queue = group_kind(obj), queue_of(obj)
    if not queue or not is_custom(kind[0]) or is_managed_kind(kind) or _is_part(obj):
        return None
    return (
        f"{kind[1]} names the queue {queue}, and Stowage does not manage this kind: it does not wait for quota. Managed are "
        f"{', '.join(managed_kinds())}; its pods wait one by one if their template names the queue. A JobKind can declare it"
    )


def is_custom(group: str) -> bool:
    """Reports whether kinds of this API group may be custom resources with pods."""
    return "." in group and group not in PASSED_GROUPS


def group_kind(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the object's API group and kind."""
    group, slash, _ = str(obj.get("apiVersion") or "").partition("/")
    return (group if slash else "", str(obj.get("kind") or ""))


def queue_of(obj: Mapping[str, Any]) -> str:
    """Returns the queue that the object names, or an empty string."""
    labels = (obj.get("metadata") or {}).get("labels")
    return str(labels.get(QUEUE_NAME_LABEL) or "") if isinstance(labels, Mapping) else ""


def _is_part(obj: Mapping[str, Any]) -> bool:
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return any(isinstance(owner, Mapping) and owner.get("controller") for owner in owners)
