"""Marks the nodes of advance reservations, and says which of them a workload may use at a moment. Pure.

The ledger keeps the marks up to date, and the placement leaves out those with a mark that a request does not cover. What a
workload may use only shrinks with time until a reservation ends, so no wait ends by time alone before that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from admission.engine.model import RESERVED_EFFECT, AdvanceReservation, Flavor, Node, PodSet, Workload


def marked(node: Node, reservations: Iterable[AdvanceReservation]) -> Node:
    """Returns the node with the marks of those reservations that hold it, and no others."""
    own = tuple(taint for taint in node.taints if taint.effect != RESERVED_EFFECT)
    marks = tuple(one.mark for one in reservations if one.holds(node.labels))
    return node if node.taints == own + marks else replace(node, taints=own + marks)


def usable_by(reservation: AdvanceReservation, workload: Workload, now: float) -> bool:
    """Reports whether the workload may start on the reserved nodes at `now` (epoch seconds), or stays there if it runs."""
    if now >= reservation.end or names(workload, reservation):
        return True
    if workload.time_limit is None:
        return False
    begins = now if workload.admitted is None else workload.admitted
    return begins + workload.time_limit + workload.termination <= reservation.start


def names(workload: Workload, reservation: AdvanceReservation) -> bool:
    """Reports whether the workload names the reservation, and its namespace may use that."""
    return workload.reservation == reservation.name and workload.key.partition("/")[0] in reservation.namespaces


def confined_to(reservation: AdvanceReservation, workload: Workload, pod_set: PodSet) -> bool:
    """Reports whether the workload's pods are placed on the reserved nodes alone.

    It names the reservation, which charges the quota of its ClusterQueue now, and its node selector allows these nodes.
    """
    if not reservation.charging or workload.cluster_queue != reservation.queue or not names(workload, reservation):
        return False
    return all(pod_set.node_selector.get(key, value) == value for key, value in reservation.labels.items())


def with_usable(pod_set: PodSet, workload: Workload, flavor: Flavor | None, now: float) -> PodSet:
    """Returns the pod set with the reservations whose nodes its pods may use at `now`, confined to one that they draw on."""
    if flavor is None or not flavor.reservations:
        return pod_set
    for one in flavor.reservations:
        if confined_to(one, workload, pod_set):
            pod_set = replace(pod_set, node_selector={**pod_set.node_selector, **one.labels})
    usable = tuple(one.name for one in flavor.reservations if usable_by(one, workload, now))
    return replace(pod_set, reservations=usable) if usable else pod_set


def with_all(pod_set: PodSet, flavor: Flavor | None) -> PodSet:
    """Returns the pod set with every reservation: for pods that have their place, and for bounds that hold at any moment."""
    return pod_set if flavor is None or not flavor.reservations else replace(pod_set, reservations=None)
