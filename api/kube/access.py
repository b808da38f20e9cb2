"""Asks the API server whether a token may read a page of a process (TokenReview, SubjectAccessReview).

The process needs the role `system:auth-delegator` (the component config/metricsauth). A reader of the page needs a role with
`nonResourceURLs: [/metrics]` and the verb `get`. health.py uses it.
"""

from __future__ import annotations

import hashlib
from typing import Final

from cachetools import TTLCache

from api.errors import StowageError
from api.kube.client import Kube
from api.kube.health import PathAccess
from api.kube.resources import Resource

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
_LONGEST_TOKEN: Final = 16 * 1024


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
                self._known[key] = await self._asked(token, path)
            except StowageError:
                return PathAccess.UNKNOWN
        return self._known[key]

    async def _asked(self, token: str, path: str) -> PathAccess:
        found = await self._kube.create(TOKEN_REVIEWS, _body(TOKEN_REVIEWS, {"token": token}))
        status = found.get("status") or {}
        if not status.get("authenticated"):
            return PathAccess.UNKNOWN
        user = status.get("user") or {}
        subject = {key: user[key] for key in ("groups", "uid", "extra") if user.get(key)}
        spec = {"user": user.get("username", ""), **subject, "nonResourceAttributes": {"path": path, "verb": "get"}}
        answer = await self._kube.create(ACCESS_REVIEWS, _body(ACCESS_REVIEWS, spec))
        return PathAccess.MAY if (answer.get("status") or {}).get("allowed") else PathAccess.MAY_NOT


def _body(resource: Resource, spec: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
