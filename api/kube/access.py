"""Asks the API server what others may do (TokenReview, SubjectAccessReview).

`Access`: whether a token may read a page of a process. The process needs the role `system:auth-delegator` (the component
config/metricsauth), and a reader of the page a role with `nonResourceURLs: [/metrics]` and the verb `get`. health.py uses it.

`Identities`: the user of a token (the dashboard). `Permissions`: whether a user may do something with a resource: the webhook
asks about the users of reviews, admission.visibility and the dashboard about those of their APIs. Their roles permit that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from cachetools import TTLCache

from api.errors import StowageError
from api.kube.client import Kube
from api.kube.health import PathAccess
from api.kube.resources import Resource

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
_LONGEST_TOKEN: Final = 16 * 1024
_ANSWERS: Final = 32768
"""Answers about rights that are kept: of the dashboard, a user's may be two for each of thousands of namespaces."""


class Access:
    """Authorizes readers by token, and caches each answer for a minute."""

    def __init__(self, kube: Kube) -> None:
        # Separate slots, so that unknown clients cannot take those of other requests.
        self._kube = kube.tuned(attempts=1, timeout=5.0, concurrency=4)
        self._known: TTLCache[tuple[bytes, str], PathAccess] = TTLCache(1024, 60.0)

    async def may_read(self, token: str, path: str) -> PathAccess:
        """Returns the reader's access to the path; UNKNOWN also if the API server does not answer."""
        if not 0 < len(token) <= _LONGEST_TOKEN:
            return PathAccess.UNKNOWN
        key = hashlib.sha256(token.encode()).digest(), path
        if key not in self._known:
            try:
                self._known[key] = await self._reviewed(token, path)
            except StowageError:
                return PathAccess.UNKNOWN
        return self._known[key]

    async def _reviewed(self, token: str, path: str) -> PathAccess:
        subject = await _user(self._kube, token)
        if subject is None:
            return PathAccess.UNKNOWN
        spec = {**subject.spec(), "nonResourceAttributes": {"path": path, "verb": "get"}}
        answer = await self._kube.create(ACCESS_REVIEWS, _body(ACCESS_REVIEWS, spec))
        return PathAccess.MAY if (answer.get("status") or {}).get("allowed") else PathAccess.MAY_NOT


@dataclass(frozen=True, slots=True)
class Right:
    """The right to do something (`verb`) with objects of a resource, or with their subresource."""

    resource: Resource
    subresource: str = ""
    verb: str = "update"


@dataclass(frozen=True, slots=True)
class Subject:
    """A user as the API server names it. `extra` has what an authenticator or authorizer added, by key."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def spec(self) -> dict[str, object]:
        """Returns its fields of a SubjectAccessReview."""
        given = {"uid": self.uid, "extra": {key: list(values) for key, values in self.extra}}
        named = {key: value for key, value in given.items() if value}
        return {"user": self.username, "groups": list(self.groups), **named}


class Identities:
    """Says whose a token is, and caches each answer for `seconds`: so long a token works on after it was revoked."""

    def __init__(self, kube: Kube, seconds: float = 30.0) -> None:
        # Separate slots, so that unknown clients cannot take those of other requests.
        self._kube = kube.tuned(attempts=1, timeout=5.0, concurrency=4)
        self._known: TTLCache[bytes, Subject] = TTLCache(1024, seconds)
        # Apart, so that made-up tokens do not push those out that are accepted.
        self._refused: TTLCache[bytes, None] = TTLCache(1024, seconds)

    async def of(self, token: str) -> Subject | None:
        """Returns the token's user, None if the API server does not accept it. Raises ApiError and TimeoutError."""
        if not 0 < len(token) <= _LONGEST_TOKEN:
            return None
        key = hashlib.sha256(token.encode()).digest()
        found = self._known.get(key)
        if found is None and key not in self._refused:
            found = await _user(self._kube, token)
            if found is None:
                self._refused[key] = None
            else:
                self._known[key] = found
        return found


async def _user(kube: Kube, token: str) -> Subject | None:
    found = await kube.create(TOKEN_REVIEWS, _body(TOKEN_REVIEWS, {"token": token}))
    status = found.get("status") or {}
    user = status.get("user") or {}
    if not status.get("authenticated") or not user.get("username"):
        return None
    extra = tuple(sorted((key, tuple(values)) for key, values in (user.get("extra") or {}).items()))
    return Subject(user["username"], tuple(user.get("groups") or ()), user.get("uid") or "", extra)


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

    async def _reviewed(self, subject: Subject, right: Right, namespace: str, name: str) -> bool:
        what = {"group": right.resource.group, "resource": right.resource.plural, "subresource": right.subresource}
        named = {"name": name} if name else {}
        spec = subject.spec()
        spec["resourceAttributes"] = {"verb": right.verb, "namespace": namespace, **what, **named}
        answer = await self._kube.create(ACCESS_REVIEWS, _body(ACCESS_REVIEWS, spec))
        return bool((answer.get("status") or {}).get("allowed"))


def _body(resource: Resource, spec: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
