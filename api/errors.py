"""The tree of errors.

    StowageError
    ├── InvalidObject           bad input: names the object, the field, what was given and what is allowed
    │   └── InvalidQuantity
    ├── ApiError                the API server refused or could not be reached (status, reason, message)
    │   ├── BadRequest (400)
    │   ├── Unauthorized (401)
    │   ├── Forbidden (403)
    │   ├── NotFound (404)
    │   ├── Conflict (409)      a stale resourceVersion, or another writer was first
    │   │   └── AlreadyExists
    │   ├── Gone (410)          a watch or a continue token is too old: list again
    │   ├── Invalid (422)
    │   ├── TooManyRequests (429, retry_after)
    │   ├── ServerError (5xx)
    │   └── Unreachable         no answer: connection refused or cut, or the request's timeout ran out
    └── NotLeader               a write was fenced: this process no longer holds the Lease

"Does not fit" is never an exception: the engine answers with a value that carries a reason.
"""

from __future__ import annotations


class StowageError(Exception):
    """Root of everything that Stowage raises itself."""


class InvalidObject(StowageError):
    """Bad input. `field` is a path such as `spec.levels[2].nodeLabel`; `given` is what stood there."""

    def __init__(self, field: str, given: object, allowed: str, obj: str = "") -> None:
        self.field, self.given, self.allowed, self.obj = field, given, allowed, obj
        super().__init__(f"{obj + ': ' if obj else ''}{field}: {given!r}: {allowed}")


class InvalidQuantity(InvalidObject):
    """A string that is no Kubernetes quantity."""


class ApiError(StowageError):
    """An answer of the API server other than 2xx, or none at all (status 0)."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after
        super().__init__(f"{status} {reason}: {message}")


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403, also an admission webhook's denial."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: read again and retry."""


class AlreadyExists(Conflict):
    """409 on create."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old."""


class Invalid(ApiError):
    """422: the object fails validation."""


class TooManyRequests(ApiError):
    """429; `retry_after` in seconds when the server named it."""


class ServerError(ApiError):
    """5xx."""


class Unreachable(ApiError):
    """No answer at all within the request's timeout (status 0)."""


class NotLeader(StowageError):
    """A write was refused by our own fence because the Lease is lost or not proved any more."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}

# A message may carry a whole pod template (kilobytes); the telling part is its end.
_MESSAGE_LIMIT = 2000


def api_error(status: int, reason: str, message: str, retry_after: float | None = None) -> ApiError:
    """The fitting member of the tree for an HTTP answer. Long messages keep head and end."""
    if len(message) > _MESSAGE_LIMIT:
        message = f"{message[:500]} ... {message[-(_MESSAGE_LIMIT - 500) :]}"
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status >= 500 else ApiError
    return kind(status, reason, message, retry_after)
