"""Asks the API server what others may do (SubjectAccessReview); identities.py says who they are.

`Access`: whether a token may read a page of a process. The process needs the role `system:auth-delegator` (the component
config/metricsauth), and a reader of the page a role with `nonResourceURLs: [/metrics]` and the verb `get`.

`Permissions`: whether a user may do something with a resource: the webhook
asks about the users of reviews, admission.visibility and the dashboard about those of their APIs. Their roles permit that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cachetools import TTLCache

from api.errors import StowageError
from api.kube.client import Kube
from api.kube.resources import Resource
from api.process.health import PathAccess
from api.process.identities import Identities, Subject

ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
_ANSWERS: Final = 32768
"""Answers about rights that are kept: of the dashboard, a user's may be two for each of thousands of namespaces."""


class Access:
    """Authorizes readers by token, and caches each answer for a minute."""

    def __init__(self, kube: Kube) -> None:
        # Separate slots, so that unknown clients cannot take those of other requests.
        self._kube = kube.tuned(attempts=1, timeout=5.0, concurrency=4)
        self._identities = Identities(kube, 60.0)
        self._known: TTLCache[tuple[Subject, str], PathAccess] = TTLCache(1024, 60.0)

    async def may_read(self, token: str, path: str) -> PathAccess:
        """Returns the reader's access to the path; UNKNOWN also if the API server does not answer."""
        try:
            subject = await self._identities.of(token)
            if subject is None:
                return PathAccess.UNKNOWN
            if (subject, path) not in self._known:
                self._known[subject, path] = await self._reviewed(subject, path)
        except StowageError:
            return PathAccess.UNKNOWN
        return self._known[subject, path]

    async def _reviewed(self, subject: Subject, path: str) -> PathAccess:
        spec = {**subject.spec(), "nonResourceAttributes": {"path": path, "verb": "get"}}
        answer = await self._kube.create(ACCESS_REVIEWS, _body(ACCESS_REVIEWS, spec))
        return PathAccess.MAY if (answer.get("status") or {}).get("allowed") else PathAccess.MAY_NOT


@dataclass(frozen=True, slots=True)
class Right:
    """The right to do something (`verb`) with objects of a resource, or with their subresource."""

    resource: Resource
    subresource: str = ""
    verb: str = "update"


class Permissions:
    """Answers whether users have rights, and caches each answer for a minute."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube.tuned(attempts=2, timeout=3.0, concurrency=8)
        self._known: TTLCache[tuple[Subject, Right, str, str], bool] = TTLCache(_ANSWERS, 60.0)

    async def may(self, subject: Subject, right: Right, namespace: str, name: str = "") -> bool:
        """Reports whether the user has the right in the namespace (empty: a cluster-wide resource) on the object `name`.

        Raises ApiError and TimeoutError.
        """
        key = subject, right, namespace, name
        if key not in self._known:
            self._known[key] = await self._reviewed(*key)
        return self._known[key]

    async def may_any(self, subject: Subject, rights: Iterable[Right], namespace: str) -> bool:
        """Reports whether the user has one of the rights in the namespace. Raises ApiError and TimeoutError."""
        for right in rights:
            if await self.may(subject, right, namespace):
                return True
        return False

    async def _reviewed(self, subject: Subject, right: Right, namespace: str, name: str) -> bool:
        what = {"group": right.resource.group, "resource": right.resource.plural, "subresource": right.subresource}
        named = {"name": name} if name else {}
        spec = subject.spec()
        spec["resourceAttributes"] = {"verb": right.verb, "namespace": namespace, **what, **named}
        answer = await self._kube.create(ACCESS_REVIEWS, _body(ACCESS_REVIEWS, spec))
        return bool((answer.get("status") or {}).get("allowed"))


def _body(resource: Resource, spec: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
