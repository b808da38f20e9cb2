"""Pods of others on nodes that a flavor keeps for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, name_of, spec_of
from api.kube.resources import NODES, PODS, RESOURCE_FLAVORS

_KEEPING: Final = frozenset(("NoSchedule", "NoExecute"))


def _is_exclusive(flavor: Obj) -> bool:
    return any(taint.get("effect") in _KEEPING for taint in spec_of(flavor).get("nodeTaints") or ())


def _foreign(view: View) -> Iterator[Finding]:
    exclusive = {
        name_of(node): name_of(flavor)
        for flavor in view.of(RESOURCE_FLAVORS)
        if _is_exclusive(flavor)
        for node in view.nodes_of[name_of(flavor)]
    }
    for pod in view.pods:
        if pod.foreign and (flavor := exclusive.get(pod.node)):
            what = f"is of no workload and runs on {pod.node}, which ResourceFlavor {flavor} keeps by a taint"
            command = view.command("-n", pod.namespace, "delete", "pod", pod.name)
            yield Finding(f"Pod {pod.namespace}/{pod.name}", what, command)


CHECKS: Final = (
    Check(
        "foreign-pods",
        (PODS, NODES, RESOURCE_FLAVORS),
        "A pod of no workload runs on a node of a flavor with nodeTaints, which keep others off. Pods of DaemonSets and of the "
        "node itself may.",
        "It takes capacity that the flavor's quota promises to workloads.",
        "deletes the pod; its controller, if it has one, starts another elsewhere if the node has the taint",
        _foreign,
    ),
)
