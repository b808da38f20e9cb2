"""Converts an AdvanceReservation to the engine's value; see convert_workloads.py.

All rules are checked here again: an older CRD may not have those of the schema.
"""

from __future__ import annotations

import re
from typing import Final

from admission.engine import model
from api import advance_reservations
from api.errors import InvalidObject
from api.meta import parse_time
from api.schema import DNS_SUBDOMAIN

_LONGEST: Final = 317
_WITH_ZONE: Final = re.compile(r"([Zz]|[+-]\d\d:\d\d)$")


def advance_reservation(reservation: advance_reservations.AdvanceReservation) -> model.AdvanceReservation:
    """Returns the engine's value. Raises InvalidObject for labels, times, namespaces or a queue that break a rule."""
    spec = reservation.spec
    if not 0 < len(spec.node_labels) <= advance_reservations.MAX_LABELS:
        wrong = f"{len(spec.node_labels)} labels"
        raise InvalidObject("spec.nodeLabels", wrong, f"allowed: 1 to {advance_reservations.MAX_LABELS} labels")
    for key, value in spec.node_labels.items():
        if not key or len(key) > _LONGEST or len(value) > _LONGEST:
            raise InvalidObject("spec.nodeLabels", f"{key}={value}"[:_LONGEST], "allowed: a label key and its value")
    if len(spec.namespaces) > advance_reservations.MAX_NAMESPACES:
        allowed = f"allowed: at most {advance_reservations.MAX_NAMESPACES} namespaces"
        raise InvalidObject("spec.namespaces", f"{len(spec.namespaces)} namespaces", allowed)
    start, end = _time("spec.start", spec.start), _time("spec.end", spec.end)
    if start >= end:
        raise InvalidObject("spec.end", spec.end, "allowed: a time after spec.start")
    queue = spec.cluster_queue
    if queue and (len(queue) > advance_reservations.LONGEST_NAME or not re.fullmatch(DNS_SUBDOMAIN, queue)):
        raise InvalidObject("spec.clusterQueue", queue[:_LONGEST], "allowed: the name of a ClusterQueue")
    return model.AdvanceReservation(
        reservation.key, dict(spec.node_labels), start, end, frozenset(spec.namespaces), queue
    )


def _time(field: str, text: str) -> float:
    try:
        parsed = parse_time(text) if _WITH_ZONE.search(text) else None
    except ValueError:
        parsed = None
    if parsed is None:
        raise InvalidObject(field, text[:_LONGEST], "allowed: a time in RFC 3339")
    return parsed
