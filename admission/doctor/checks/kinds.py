"""Kinds of jobs: objects that name a queue are of a kind that Stowage manages, and each JobKind is in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import View, condition, name_of
from api.kube.resources import JOB_KINDS
from api.names import ACTIVE, QUEUE_NAME_LABEL


def unmanaged(view: View) -> Iterator[Finding]:
    """Yields the objects that name a queue without effect."""
    for one in view.unmanaged:
        where = ("-n", one.namespace) if one.namespace else ()
        kind = f"{one.resource.plural}.{one.resource.group}"
        command = view.command(*where, "label", kind, one.name, f"{QUEUE_NAME_LABEL}-")
        yield Finding(f"{one.resource.kind} {one.namespace}/{one.name}", one.notice, command)


def _inactive(view: View) -> Iterator[Finding]:
    for kind in view.of(JOB_KINDS):
        said = condition(kind, ACTIVE)
        if said.get("status") == "False":
            command = view.command("delete", "jobkind", name_of(kind))
            yield Finding(f"JobKind {name_of(kind)}", f"is not in use: {said.get('message')}", command)


CHECKS: Final = (
    Check(
        "kinds-without-declaration",
        (Question.UNMANAGED,),
        "An object names a queue, and Stowage does not manage its kind.",
        "It runs outside every quota, while its users believe that it queues.",
        "removes the name of the queue; to queue objects of this kind, declare it by a JobKind instead",
        unmanaged,
    ),
    Check(
        "jobkinds-inactive",
        (JOB_KINDS,),
        "A JobKind is not in use: its kind is not served, it is invalid, or another one declares the same kind.",
        "Jobs of the kind do not queue.",
        "deletes the JobKind; its condition Active says what to change instead",
        _inactive,
    ),
)
