"""The features of the admission cycle, one line each. What is left out of `FEATURES` costs nothing and breaks nothing.

advance_reservations/  a head that names its advance reservation draws on it
backfill/              workloads that may start before a waiting head without delaying it
elastic/               jobs that grow and shrink while they run
gang_groups/           gangs that start in one cycle or not at all
moves/                 running workloads go to other places, so that a gang gets its domain
spare_hosts/           hosts that are kept free for pods that lose theirs
forecast/              when a waiting workload starts; no hook, since no decision depends on it
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from admission.engine.cycle.feature import CycleContext, Feature, Features
from admission.engine.features.advance_reservations.feature import AdvanceReservations
from admission.engine.features.advance_reservations.reservation import AdvanceReservation
from admission.engine.features.backfill.feature import Backfill
from admission.engine.features.elastic.feature import ElasticJobs
from admission.engine.features.gang_groups.feature import GangGroups
from admission.engine.features.moves.feature import HeldPlaces
from admission.engine.features.spare_hosts import records
from admission.engine.features.spare_hosts.feature import Spares
from admission.engine.reasons import Reason, ReasonCode

FEATURES: Final[list[type[Feature]]] = [
    Spares,
    AdvanceReservations,
    HeldPlaces,
    GangGroups,
    ElasticJobs,
    Backfill,
]

held_records = records
"""What is held for pods that lose their host: in snapshots, and in words."""

NodeHolds = AdvanceReservation
"""The values by which features hold nodes, as a snapshot has them: a union, if there are several."""


def features_of(context: CycleContext) -> Features:
    """Returns the features for one cycle."""
    return Features([feature(context) for feature in FEATURES])


def read_annotations() -> tuple[str, ...]:
    """Returns the annotations that the features read, which jobs pass to their Workloads and these to the engine."""
    return tuple(dict.fromkeys(chain.from_iterable(feature.annotations for feature in FEATURES)))


def all_reasons() -> Iterator[ReasonCode]:
    """Yields every reason why a workload waits: those of the engine and the controllers, then those of the features."""
    yield from Reason
    for feature in FEATURES:
        yield from feature.reasons


def reason_of(code: str) -> ReasonCode | None:
    """Returns the reason with this code; None if there is none, as that of a feature which is left out."""
    try:
        return Reason(code)
    except ValueError:
        return next((reason for feature in FEATURES for reason in feature.reasons if reason == code), None)
