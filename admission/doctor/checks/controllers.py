"""Other controllers that decide about the same objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.view import Obj, View, labels, name_of, namespace_of, spec_of
from api.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource

KUEUE_CONTROLLER: Final = "kueue-controller-manager"


def kueue_deployments(view: View) -> list[Obj]:
    """Returns the Deployments of Kueue's controller that have replicas."""
    return [each for each in view.of(DEPLOYMENTS) if _is_kueue(each) and spec_of(each).get("replicas", 1)]


def kueue_webhooks(view: View) -> list[tuple[Resource, Obj]]:
    """Returns the webhook configurations of Kueue."""
    kinds = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    return [(kind, each) for kind in kinds for each in view.of(kind) if name_of(each).startswith("kueue-")]


def stop(view: View, deployment: Obj) -> str:
    """Returns the command that stops a Deployment."""
    return view.command("-n", namespace_of(deployment), "scale", f"deployment/{name_of(deployment)}", "--replicas=0")


def _is_kueue(deployment: Obj) -> bool:
    named = name_of(deployment) == KUEUE_CONTROLLER
    return named or labels(deployment).get("app.kubernetes.io/name") == "kueue"


def _found(view: View) -> Iterator[Finding]:
    for deployment in kueue_deployments(view):
        name = f"Deployment {namespace_of(deployment)}/{name_of(deployment)}"
        yield Finding(name, "Kueue's controller runs beside Stowage's", stop(view, deployment))
    for kind, configuration in kueue_webhooks(view):
        command = view.command("delete", kind.kind.lower(), name_of(configuration))
        yield Finding(f"{kind.kind} {name_of(configuration)}", "calls Kueue's webhooks", command)


CHECKS: Final = (
    Check(
        "other-controllers",
        (DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS),
        "Kueue's controller or its webhooks are still there.",
        "Two controllers give the same quota away twice; webhooks without a controller refuse every job.",
        "stops Kueue's controller, or deletes its webhook configuration; queues and Workloads stay",
        _found,
    ),
)
