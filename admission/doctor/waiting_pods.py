"""What keeps a pod of Stowage from running, of those that do not: where it waits, and why. Values and one pure function."""

from __future__ import annotations

import msgspec


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    message: str = ""


class _Waiting(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct):
    waiting: _Waiting | None = None


class _Container(msgspec.Struct):
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()
    container_statuses: tuple[_Container, ...] = ()


class _Meta(msgspec.Struct):
    name: str = ""


class PodOfOurs(msgspec.Struct):
    """A pod in Stowage's namespace as listed."""

    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


def why_it_waits(pod: PodOfOurs) -> str:
    """Returns why a pod has no node, or why a container of it does not start; empty if neither is known."""
    unbound = (each for each in pod.status.conditions if (each.type, each.status) == ("PodScheduled", "False"))
    if (condition := next(unbound, None)) is not None:
        return f"is Pending: {condition.message}" if condition.message else "is Pending"
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = next(
        (each.state.waiting for each in containers if each.state.waiting and each.state.waiting.reason), None
    )
    if waiting is None or waiting.reason in ("ContainerCreating", "PodInitializing"):
        return ""
    return f"waits: {waiting.reason}" + (f": {waiting.message}" if waiting.message else "")
