"""AdvanceReservations as a feature of the view: it watches them and converts each to a hold of nodes.

All rules of the schema are checked here again: an older CRD may not have them.
"""

from __future__ import annotations

import re
from typing import Final

from admission.controllers.watch.view_feature import NodeHoldChanged, ViewFeature
from admission.controllers.watch.watched import Watched, item
from admission.engine.features.advance_reservations.reservation import AdvanceReservation as Hold
from api.advance_reservations import LONGEST_NAME, MAX_LABELS, MAX_NAMESPACES, AdvanceReservation
from api.errors import InvalidObject
from api.kube.informers.optional_informer import OptionalInformer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import ADVANCE_RESERVATIONS
from api.meta import parse_time
from api.schema import DNS_SUBDOMAIN

_LONGEST: Final = 317
_WITH_ZONE: Final = re.compile(r"([Zz]|[+-]\d\d:\d\d)$")


def advance_reservation(reservation: AdvanceReservation) -> Hold:
    """Returns the engine's value. Raises InvalidObject for labels, times, namespaces or a queue that break a rule."""
    spec = reservation.spec
    if not 0 < len(spec.node_labels) <= MAX_LABELS:
        wrong = f"{len(spec.node_labels)} labels"
        raise InvalidObject("spec.nodeLabels", wrong, f"allowed: 1 to {MAX_LABELS} labels")
    for key, value in spec.node_labels.items():
        if not key or len(key) > _LONGEST or len(value) > _LONGEST:
            raise InvalidObject("spec.nodeLabels", f"{key}={value}"[:_LONGEST], "allowed: a label key and its value")
    if len(spec.namespaces) > MAX_NAMESPACES:
        allowed = f"allowed: at most {MAX_NAMESPACES} namespaces"
        raise InvalidObject("spec.namespaces", f"{len(spec.namespaces)} namespaces", allowed)
    start, end = _time("spec.start", spec.start), _time("spec.end", spec.end)
    if start >= end:
        raise InvalidObject("spec.end", spec.end, "allowed: a time after spec.start")
    queue = spec.cluster_queue
    if queue and (len(queue) > LONGEST_NAME or not re.fullmatch(DNS_SUBDOMAIN, queue)):
        raise InvalidObject("spec.clusterQueue", queue[:_LONGEST], "allowed: the name of a ClusterQueue")
    return Hold(reservation.key, dict(spec.node_labels), start, end, queue, namespaces=frozenset(spec.namespaces))


def _time(field: str, text: str) -> float:
    try:
        parsed = parse_time(text) if _WITH_ZONE.search(text) else None
    except ValueError:
        parsed = None
    if parsed is None:
        raise InvalidObject(field, text[:_LONGEST], "allowed: a time in RFC 3339")
    return parsed


class AdvanceReservationView(ViewFeature):
    """The AdvanceReservations, where their CRD is installed."""

    holding = ADVANCE_RESERVATIONS
    reservations = Watched(
        ADVANCE_RESERVATIONS, item(AdvanceReservation), informer=OptionalInformer, check=advance_reservation
    )

    def on_node_holds(self, fn: NodeHoldChanged) -> None:
        """Calls `fn` with each reservation that came or changed, and with None for one that went or is invalid."""

        def changed(change: Change[AdvanceReservation]) -> None:
            if change.type is ChangeType.DELETED:
                fn(change.key, None)
            elif change.old is None or change.old.spec != change.object.spec:
                fn(change.key, _valid(change.object))

        self.reservations.add_handler(changed)


def _valid(reservation: AdvanceReservation) -> Hold | None:
    try:
        return advance_reservation(reservation)
    except InvalidObject:  # its controller says so in the status
        return None
