"""Node capacity and pod usage other than resources: devices, and volumes that a driver attaches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from admission.controllers.watch.projection import ProjectedPod
from admission.engine.model import PodSet
from api.workloads import Workload

NOTHING: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class AmountsChanged:
    """The objects to evaluate again."""

    workloads: Collection[Workload] = ()
    nodes: Collection[str] = ()
    pods: Collection[ProjectedPod] = ()


def with_amounts(pod_set: PodSet, amounts: Mapping[str, int]) -> PodSet:
    """Returns the pod set with these amounts added to its requests on nodes, without charging them to quota."""
    if not amounts:
        return pod_set
    charged = pod_set.requests if pod_set.charged is None else pod_set.charged
    return replace(pod_set, requests={**pod_set.requests, **amounts}, charged=charged)
