"""The event on an object of a kind that is not managed and that names a queue (integrations/unmanaged.py).

This process has no right to read such an object, and needs none: the review carries it. Any client that reaches the port can
send a review. So an event carries no text from the review except names, it is about an object of a namespace that exists, and
events are written at a bounded rate; those beyond it are dropped and counted (`stowage_events_dropped_total`).
"""

from __future__ import annotations

import re
from typing import Final

from admission.integrations.unmanaged import REASON, notice
from admission.webhook.endpoints import Request
from admission.webhook.formats import label_value_faults, subdomain_faults
from admission.webhook.lookups import Lookups
from api.kube.client import Kube
from api.kube.events import WARNING, EventRecorder, ObjectRef
from api.names import QUEUE_NAME_LABEL

_PER_SECOND, _BURST, _WAITING = 2.0, 20, 100
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_VERSION: Final = re.compile(r"[a-z0-9.-]{1,253}/[a-z0-9]{1,63}")
_UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


class Notices:
    """`tell` from the loop; one task runs `run`."""

    def __init__(self, kube: Kube, component: str, lookups: Lookups) -> None:
        self._recorder = EventRecorder(kube.tuned(qps=_PER_SECOND, burst=_BURST), component, limit=_WAITING)
        self._lookups = lookups

    @property
    def waiting(self) -> int:
        """Events that are not written yet."""
        return self._recorder.waiting

    async def run(self) -> None:
        """Until cancelled."""
        await self._recorder.run()

    def tell(self, request: Request) -> None:
        """Says it of the object of this request, if there is something to say."""
        if request.dry_run or self._lookups.namespace_labels(request.namespace) is None:
            return
        if (text := notice(request.new)) is not None and (ref := reference(request)) is not None:
            self._recorder.record(ref, WARNING, REASON, text)


def reference(request: Request) -> ObjectRef | None:
    """What the event is about; None where a name is none.

    The API server gives a new object its name and uid before it asks those who validate it.
    """
    obj, meta = request.new, request.new.get("metadata") or {}
    version, kind, name = str(obj.get("apiVersion")), str(obj.get("kind")), str(meta.get("name") or request.name)
    uid, queue = str(meta.get("uid") or ""), str((meta.get("labels") or {}).get(QUEUE_NAME_LABEL))
    named = _VERSION.fullmatch(version) and _KIND.fullmatch(kind) and _UID.fullmatch(uid)
    if not named or subdomain_faults(name) or label_value_faults(queue):
        return None
    return ObjectRef(version, kind, name, request.namespace, uid)
