"""Deployments and Leases: the processes run, and one of each leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import CONTROLLER, UNGATER, WEBHOOK, Obj, View, namespace_of, spec_of, status_of
from api.kube.resources import DEPLOYMENTS, LEASES
from api.meta import parse_time

_LED: Final = (CONTROLLER, UNGATER)
_SLACK: Final = 30.0
"""Seconds that a Lease may be late: clocks differ."""
_LONGEST: Final = 600
"""Seconds of the longest usual leaseDurationSeconds."""


def deployment(view: View, name: str) -> Obj | None:
    """Returns a Deployment of Stowage, or None; processes may run outside of the cluster."""
    return view.named(DEPLOYMENTS, name, view.namespace)


def is_down(view: View, name: str) -> bool:
    """Reports whether the Deployment exists and has no available replica."""
    installed = deployment(view, name)
    return installed is not None and not status_of(installed).get("availableReplicas")


def restart(view: View, name: str) -> str:
    """Returns the command that restarts a process's pods."""
    return view.command("-n", view.namespace, "rollout", "restart", f"deployment/{name}")


def _deployments(view: View) -> Iterator[Finding]:
    installed = any(namespace_of(each) == view.namespace for each in view.of(DEPLOYMENTS))
    for name in (WEBHOOK, CONTROLLER, UNGATER):
        obj = deployment(view, name)
        if obj is None:
            if installed:
                file = str(view.expected.folder / "default")
                command = view.command("apply", "--server-side", "--force-conflicts", "-k", file)
                yield Finding(f"Deployment {name}", "is missing", command)
            continue
        wanted, available = spec_of(obj).get("replicas", 1), status_of(obj).get("availableReplicas") or 0
        if not wanted:
            scale = view.command("-n", view.namespace, "scale", f"deployment/{name}", "--replicas=2")
            yield Finding(f"Deployment {name}", "has 0 replicas", scale)
        elif not available:
            yield _unavailable(view, name, f"has 0 of {wanted} replicas available")


def _unavailable(view: View, name: str, what: str) -> Finding:
    """Returns the finding of a Deployment without available pods. A restart helps unless a new pod would wait as well."""
    pod = next((each for each in sorted(view.held_up) if each.startswith(f"{name}-")), None)
    if pod is None:
        return Finding(f"Deployment {name}", what, restart(view, name))
    describe = view.command("-n", view.namespace, "describe", "pod", pod)
    command = f"# a restart does not help: mend what the pod's events name: {describe}"
    return Finding(f"Deployment {name}", f"{what}: Pod {pod} {view.held_up[pod]}", command)


def _leases(view: View) -> Iterator[Finding]:
    for name in _LED:
        if is_down(view, name):
            continue  # the check of the Deployment names it
        lease = view.named(LEASES, name, view.namespace)
        if lease is None:
            yield Finding(f"Lease {name}", "is missing: no process has led so far", restart(view, name))
            continue
        spec = spec_of(lease)
        holder, duration = spec.get("holderIdentity") or "", int(spec.get("leaseDurationSeconds") or 0)
        renewed = parse_time(str(spec.get("renewTime") or "")) if spec.get("renewTime") else None
        late = view.now - (renewed or 0.0) - duration
        if holder and (duration > _LONGEST or (renewed or 0.0) > view.now + _LONGEST):
            delete = view.command("-n", view.namespace, "delete", "lease", name)
            yield Finding(f"Lease {name}", f"is held by {holder} for {duration} s", delete)
        elif not holder or late > _SLACK:
            since = f"{holder} renewed it {view.now - renewed:.0f} s ago" if holder and renewed else "nobody holds it"
            yield Finding(f"Lease {name}", f"no process leads: {since}", restart(view, name))


CHECKS: Final = (
    Check(
        "deployments",
        (DEPLOYMENTS, Question.OUR_PODS),
        "A Deployment of Stowage is missing, or none of its replicas is available.",
        "Without the webhook no job that names a queue can be created; without the controller nothing is admitted; "
        "without the ungater no admitted pod starts.",
        "applies the manifests, scales the Deployment to 2, or restarts its pods; of pods that are Pending or whose containers "
        "wait, says what to look at",
        _deployments,
    ),
    Check(
        "leases",
        (DEPLOYMENTS, LEASES, Question.ADMISSION),
        "No replica of the controller or of the ungater leads, or a Lease is held for longer than any replica holds it.",
        "Only the leader writes: nothing is admitted, or no pod starts.",
        "deletes a Lease that nobody gives back, or restarts the pods",
        _leases,
    ),
)
