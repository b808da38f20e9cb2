"""The viewer, and what they may see: nothing that kubectl would not show them.

A `Viewer` answers for one request or one stream. In a cluster it asks the API server (TokenReview, SubjectAccessReview; both
cached for a short time), on localhost the user's own kubeconfig has read everything already. `Permissions` holds the answer:
the namespaces whose Workloads and pods the viewer may list, and whether nodes, ClusterQueues and what holds nodes. `hide`
takes the names of others' workloads out of the texts and values of an explanation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from admission.controllers.watch.cluster_view import FEATURES
from api.kube.partial import PartialKube
from api.kube.resources import CLUSTER_QUEUES, NODES, PODS, WORKLOADS
from api.process.access import Right
from api.process.identities import Subject

OTHERS: Final = "a workload of another namespace"
MOST_NAMESPACES: Final = 2000
"""Namespaces for which the rights of one viewer are read; those beyond are hidden."""
LIST_WORKLOADS: Final = Right(WORKLOADS, verb="list")
LIST_PODS: Final = Right(PODS, verb="list")
LIST_NODES: Final = Right(NODES, verb="list")
LIST_QUEUES: Final = Right(CLUSTER_QUEUES, verb="list")
LIST_HOLDS: Final = tuple(Right(feature.holding, verb="list") for feature in FEATURES if feature.holding is not None)
_AT_ONCE: Final = 8
_ACCOUNTS: Final = "system:serviceaccount:"
_NAME: Final = re.compile(
    r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/([a-z0-9][a-z0-9.-]*[a-z0-9]|[a-z0-9])(?![\w/])"
)
May = Callable[[Subject, Right, str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a viewer may see."""

    nodes: bool = True
    queues: bool = True
    namespaces: frozenset[str] | None = None
    """None for all."""
    pods: frozenset[str] | None = None
    """Namespaces in which the viewer may see pods; None for all."""
    reservations: bool = True
    unread: tuple[str, ...] = ()
    """Kinds of which the process has not read everything: nothing can be computed from a part of the cluster."""

    def sees(self, namespace: str) -> bool:
        """Reports whether the viewer may list the Workloads of the namespace."""
        return self.namespaces is None or namespace in self.namespaces

    def sees_pods(self, namespace: str) -> bool:
        """Reports whether the viewer may list the pods of the namespace."""
        return self.pods is None or namespace in self.pods


def share_of(name: str) -> str:
    """Returns whose share of streams and questions a user takes: a tenant can make accounts without end, so the accounts of a
    namespace have one share.
    """
    return name.rpartition(":")[0] if name.startswith(_ACCOUNTS) else name


class Viewer(Protocol):
    """A user of the dashboard. `name` is the user name."""

    @property
    def name(self) -> str:
        """The user name."""

    async def permissions(self, namespaces: Sequence[str]) -> Permissions:
        """Returns what they may see of these namespaces, of the first MOST_NAMESPACES. Raises ApiError and TimeoutError."""


@dataclass(frozen=True, slots=True)
class LocalUser:
    """The user of this machine, whose kubeconfig read what there is to see. `read` returns what that was."""

    name: str = "you"
    read: Callable[[], Permissions] = Permissions

    async def permissions(self, namespaces: Sequence[str]) -> Permissions:
        """Returns permissions of all that was read."""
        return self.read()


def permissions_of(kube: PartialKube) -> Permissions:
    """Returns what a user may see whose rights may be narrow."""
    namespaces, pods = (
        None if scope is None else frozenset((scope,) if scope else ())
        for scope in (kube.scope(WORKLOADS), kube.scope(PODS))
    )
    unread = tuple(sorted(resource.plural for resource in kube.refused))
    nodes, queues = (kube.scope(kind) is None for kind in (NODES, CLUSTER_QUEUES))
    reservations = all(kube.scope(right.resource) is None for right in LIST_HOLDS)
    return Permissions(nodes, queues, namespaces, pods, reservations, unread)


@dataclass(frozen=True, slots=True)
class TokenUser:
    """A user of the cluster. `may` asks the API server."""

    subject: Subject
    may: May

    @property
    def name(self) -> str:
        """The user name."""
        return self.subject.username

    async def permissions(self, namespaces: Sequence[str]) -> Permissions:
        """Asks for each right on the whole cluster first, and by namespace only without it."""
        asked = namespaces[:MOST_NAMESPACES]
        nodes, queues, reservations, workloads, pods = await asyncio.gather(
            self.may(self.subject, LIST_NODES, ""),
            self.may(self.subject, LIST_QUEUES, ""),
            self._may_all(LIST_HOLDS),
            self._namespaces(LIST_WORKLOADS, asked),
            self._namespaces(LIST_PODS, asked),
        )
        return Permissions(nodes, queues, workloads, pods, reservations)

    async def _may_all(self, rights: Iterable[Right]) -> bool:
        return all(await asyncio.gather(*(self.may(self.subject, right, "") for right in rights)))

    async def _namespaces(self, right: Right, namespaces: Sequence[str]) -> frozenset[str] | None:
        if await self.may(self.subject, right, ""):
            return None
        turn = asyncio.Semaphore(_AT_ONCE)

        async def allowed(namespace: str) -> bool:
            async with turn:
                return await self.may(self.subject, right, namespace)

        answers = await asyncio.gather(*map(allowed, namespaces))
        return frozenset(name for name, may in zip(namespaces, answers, strict=True) if may)


def hide(value: Any, permissions: Permissions, namespaces: Iterable[str], own: str = "") -> Any:
    """Returns a JSON value without names `namespace/name` of namespaces that exist and are hidden, `own` excepted.

    An explanation also names pods; those of a namespace whose Workloads are visible, but not its pods, are hidden as well.
    """
    if permissions.namespaces is None and permissions.pods is None:
        return value
    hidden = {name for name in namespaces if not (permissions.sees(name) and permissions.sees_pods(name))}

    def shown(match: re.Match[str]) -> str:
        namespace, whole = match.group(1), match.group(0)
        return whole if namespace not in hidden or namespace == own else OTHERS

    return _hidden(value, shown)


def _hidden(value: Any, shown: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        return _NAME.sub(shown, value)
    if isinstance(value, list | tuple):
        return [_hidden(each, shown) for each in value]
    if isinstance(value, dict):
        return {key: _hidden(each, shown) for key, each in value.items()}
    return value
