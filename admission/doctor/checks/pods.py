"""Pods that run and nobody admitted: those that a queue should hold, and those on nodes that a flavor keeps for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.doctor.belonging import Belonging
from admission.doctor.finding import Check, Finding
from admission.doctor.pod_facts import PodFacts
from admission.doctor.question import Question
from admission.doctor.view import Obj, View, name_of, spec_of
from api.kube.resources import DAEMON_SETS, NODES, PODS, RESOURCE_FLAVORS, WORKLOADS

_KEEPING: Final = frozenset(("NoSchedule", "NoExecute"))


def _is_exclusive(flavor: Obj) -> bool:
    return any(taint.get("effect") in _KEEPING for taint in spec_of(flavor).get("nodeTaints") or ())


def _exclusive_nodes(view: View) -> dict[str, str]:
    """Returns the names of nodes that a flavor keeps for itself, with the flavor's name."""
    return {
        name_of(node): name_of(flavor)
        for flavor in view.of(RESOURCE_FLAVORS)
        if _is_exclusive(flavor)
        for node in view.nodes_of[name_of(flavor)]
    }


def _foreign(view: View) -> Iterator[Finding]:
    exclusive = _exclusive_nodes(view)
    for pod in Belonging(view).foreign(lambda pod: pod.node in exclusive):
        whose = f"has no place of Workload {pod.workload}, which it names," if pod.workload else "is of no workload"
        what = f"{whose} and runs on {pod.node}, which ResourceFlavor {exclusive[pod.node]} keeps by a taint"
        soon = ("--grace-period=30",) if pod.until else ()
        command = view.command("-n", pod.namespace, "delete", "pod", pod.name, *soon)
        yield Finding(f"Pod {pod.namespace}/{pod.name}", what, command)


def _unadmitted(view: View) -> Iterator[Finding]:
    exclusive, unmanaged = _exclusive_nodes(view), {"kube-system", view.namespace}
    for pod in Belonging(view).foreign(lambda pod: _is_queued(pod) and pod.namespace not in unmanaged):
        if pod.node in exclusive:
            continue  # the check of foreign pods names it
        by = pod.queue or "Stowage"
        what = f"is queued by {by} and runs on {pod.node}, and no Workload has quota for it"
        soon = ("--grace-period=30",) if pod.until else ()
        command = view.command("-n", pod.namespace, "delete", "pod", pod.name, *soon)
        yield Finding(f"Pod {pod.namespace}/{pod.name}", what, command)


def _is_queued(pod: PodFacts) -> bool:
    return bool(pod.queue or pod.managed)


CHECKS: Final = (
    Check(
        "pods-without-admission",
        (PODS, NODES, RESOURCE_FLAVORS, WORKLOADS, DAEMON_SETS, Question.POD_OWNERS),
        "A pod that a queue should hold runs, and no Workload has quota for it: it was created while no webhook answered, or "
        "its gate was taken away.",
        "It runs outside of every quota, and takes the place that another workload is given.",
        "deletes the pod; its controller, if it has one, makes another, which waits for quota",
        _unadmitted,
    ),
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
