"""Writes an event on an object of an unmanaged kind that names a queue (integrations/unmanaged.py).

The process needs no right to read such objects, because the review carries them. Any client that reaches the port can send a
review, so an event contains no text from the review except names, its namespace must exist, and events are rate-limited.
Events beyond the limit are dropped and counted (`stowage_events_dropped_total`).
"""

from __future__ import annotations

import re
from typing import Final

from admission.integrations.unmanaged import REASON, notice
from admission.webhook.review_request import Request
from admission.webhook.rules.formats import label_value_faults, subdomain_faults
from admission.webhook.rules.lookups import Lookups
from api.kube.client import Kube
from api.kube.events import WARNING, EventRecorder, ObjectRef
from api.names import QUEUE_NAME_LABEL

_PER_SECOND, _BURST, _WAITING = 2.0, 20, 100
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_VERSION: Final = re.compile(r"[a-z0-9.-]{1,253}/[a-z0-9]{1,63}")
_UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


class Notices:
    """Writes the events. Call `report` on the event loop; one task runs `run`."""

    def __init__(self, kube: Kube, component: str, lookups: Lookups) -> None:
        self._recorder = EventRecorder(kube.tuned(qps=_PER_SECOND, burst=_BURST), component, limit=_WAITING)
        self._lookups = lookups

    @property
    def waiting(self) -> int:
        """Number of events that are not yet written."""
        return self._recorder.waiting

    async def run(self) -> None:
        """Writes events until cancelled."""
        await self._recorder.run()

    def report(self, request: Request) -> None:
        """Queues an event on the request's object if its kind is unmanaged and it names a queue."""
        if request.dry_run or self._lookups.namespace_labels(request.namespace) is None:
            return
        if (text := notice(request.new)) is not None and (ref := reference(request)) is not None:
            self._recorder.record(ref, WARNING, REASON, text)


def reference(request: Request) -> ObjectRef | None:
    """Returns the object of the event, or None if one of its names is invalid.

    The API server sets a new object's name and uid before it calls validating webhooks.
    """
    obj, meta = request.new, request.new.get("metadata") or {}
    version, kind, name = str(obj.get("apiVersion")), str(obj.get("kind")), str(meta.get("name") or request.name)
    uid, queue = str(meta.get("uid") or ""), str((meta.get("labels") or {}).get(QUEUE_NAME_LABEL))
    named = _VERSION.fullmatch(version) and _KIND.fullmatch(kind) and _UID.fullmatch(uid)
    if not named or subdomain_faults(name) or label_value_faults(queue):
        return None
    return ObjectRef(version, kind, name, request.namespace, uid)
