"""The features of the admission cycle, one line each. What is left out of `FEATURES` costs nothing and breaks nothing.

advance_reservations   a head that names its advance reservation draws on it
backfill/              workloads that may start before a waiting head without delaying it
elastic/               jobs that grow and shrink while they run
gang_groups/           gangs that start in one cycle or not at all
moves                  the place that is held for a head while others leave it
spares                 hosts that are kept free for pods that lose theirs
forecast/              when a waiting workload starts; no hook, since no decision depends on it
"""

from __future__ import annotations

from typing import Final

from admission.engine.cycle.feature import CycleContext, Feature, Features
from admission.engine.features.advance_reservations import AdvanceReservations
from admission.engine.features.backfill.feature import Backfill
from admission.engine.features.elastic.feature import ElasticJobs
from admission.engine.features.gang_groups.feature import GangGroups
from admission.engine.features.moves import HeldPlaces
from admission.engine.features.spares import Spares

FEATURES: Final[list[type[Feature]]] = [
    Spares,
    AdvanceReservations,
    HeldPlaces,
    GangGroups,
    ElasticJobs,
    Backfill,
]


def features_of(context: CycleContext) -> Features:
    """Returns the features for one cycle."""
    return Features([feature(context) for feature in FEATURES])
