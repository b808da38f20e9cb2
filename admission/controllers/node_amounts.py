"""Amounts beyond resources that nodes offer and pods take: devices, volumes that a driver attaches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from admission.controllers.projection import ProjectedPod
from admission.engine.model import PodSet
from api.workloads import Workload

NOTHING: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class AmountsChanged:
    """What to look at again."""

    workloads: Collection[Workload] = ()
    nodes: Collection[str] = ()
    pods: Collection[ProjectedPod] = ()


def with_amounts(pod_set: PodSet, amounts: Mapping[str, int]) -> PodSet:
    """The pod set whose pods take these amounts of their node as well. Quota does not count them."""
    if not amounts:
        return pod_set
    charged = pod_set.requests if pod_set.charged is None else pod_set.charged
    return replace(pod_set, requests={**pod_set.requests, **amounts}, charged=charged)
