"""Pods of others on nodes that a flavor keeps for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.doctor.belonging import Belonging
from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import Obj, View, name_of, spec_of
from api.kube.resources import DAEMON_SETS, NODES, PODS, RESOURCE_FLAVORS, WORKLOADS

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
    for pod in Belonging(view).foreign(exclusive):
        whose = f"has no place of Workload {pod.workload}, which it names," if pod.workload else "is of no workload"
        what = f"{whose} and runs on {pod.node}, which ResourceFlavor {exclusive[pod.node]} keeps by a taint"
        soon = ("--grace-period=30",) if pod.until else ()
        command = view.command("-n", pod.namespace, "delete", "pod", pod.name, *soon)
        yield Finding(f"Pod {pod.namespace}/{pod.name}", what, command)


CHECKS: Final = (
    Check(
        "foreign-pods",
        (PODS, NODES, RESOURCE_FLAVORS, WORKLOADS, DAEMON_SETS, Question.POD_OWNERS),
        "A pod of no admitted workload runs on a node of a flavor with nodeTaints, which keep others off. Pods of DaemonSets "
        "and of the node itself may. What a pod says of itself does not count: a Workload must have quota for it there.",
        "It takes capacity that the flavor's quota promises to workloads.",
        "deletes the pod; its controller, if it has one, starts another elsewhere if the node has the taint",
        _foreign,
    ),
)
