"""Workloads that no controller will ever end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import Obj, View, condition, name_of, namespace_of
from api.kube.resources import WORKLOADS
from api.meta import parse_time
from api.names import ADMITTED, FINISHED, QUOTA_RESERVED

_STUCK: Final = 300.0
"""Seconds after the deletion from which remaining finalizers count as stuck."""


def _found(view: View) -> Iterator[Finding]:
    for workload in view.of(WORKLOADS):
        name = f"Workload {namespace_of(workload)}/{name_of(workload)}"
        words = ("-n", namespace_of(workload))
        deleted = parse_time(str(workload["metadata"].get("deletionTimestamp") or "")) or 0.0
        if deleted:
            if view.now - deleted > _STUCK and workload["metadata"].get("finalizers"):
                body = '{"metadata":{"finalizers":null}}'
                command = view.command(*words, "patch", "workload", name_of(workload), "--type=merge", "-p", body)
                yield Finding(
                    name, f"has been in deletion for {view.now - deleted:.0f} s: its finalizers remain", command
                )
        elif condition(workload, FINISHED).get("status") != "True" and (why := _orphaned(view, workload)):
            command = view.command(*words, "delete", "workload", name_of(workload))
            yield Finding(name, f"{why}, and {_held(workload)}", command)


def _held(workload: Obj) -> str:
    kinds = (ADMITTED, QUOTA_RESERVED)
    return "holds quota" if any(condition(workload, kind).get("status") == "True" for kind in kinds) else "waits"


def _orphaned(view: View, workload: Obj) -> str | None:
    """Returns what became of the workload's owner; None while it exists, or if there never was one."""
    owners = workload["metadata"].get("ownerReferences") or ()
    gone = [_gone(view, owner) for owner in owners]
    return gone[0] if gone and all(gone) else None


def _gone(view: View, owner: Any) -> str | None:
    group, slash, _ = str(owner.get("apiVersion") or "").partition("/")
    kind = (group if slash else "", str(owner.get("kind") or ""))
    if kind not in view.owners:
        return None
    uids = view.owners[kind]
    if uids is None:
        return f"belongs to {kind[1]} {owner.get('name')}, whose kind is no longer served"
    return None if owner.get("uid") in uids else f"belongs to {kind[1]} {owner.get('name')}, which does not exist"


CHECKS: Final = (
    Check(
        "leftover-workloads",
        (WORKLOADS, Question.OWNERS),
        "A Workload's owner no longer exists, its kind is no longer served, or its finalizers remain for more than "
        "five minutes after its deletion.",
        "It holds quota for nothing, or waits in front of others.",
        "deletes the Workload, or removes its finalizers",
        _found,
    ),
)
