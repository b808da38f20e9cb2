"""The error classes.

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
    │   └── Unreachable         no response: connection refused or broken, or request timeout
    └── NotLeader               a write was fenced: this process no longer holds the Lease

"Does not fit" is never an exception: the engine returns a value with a reason.
"""

from __future__ import annotations

import reprlib


class StowageError(Exception):
    """Base of all errors that Stowage raises."""


class InvalidObject(StowageError):
    """Bad input. `field` is a path such as `spec.levels[2].nodeLabel`; `given` is its value, `allowed` what is valid."""

    def __init__(self, field: str, value: object, allowed: str, obj: str = "") -> None:
        self.field, self.given, self.allowed, self.obj = field, value, allowed, obj
        super().__init__(f"{obj + ': ' if obj else ''}{field}: {_REPR.repr(value)}: {allowed}")


_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 4, 400, 400, 60
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = _REPR.maxset = _REPR.maxfrozenset = 8
"""What users write may be a megabyte, and an error goes into logs, events and statuses."""


class InvalidQuantity(InvalidObject):
    """A string is not a Kubernetes quantity."""


class ApiError(StowageError):
    """The API server's response was not 2xx, or there was none (status 0)."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after
        super().__init__(f"{status} {reason}: {message}")


class BadRequest(ApiError):
    """Status 400."""


class Unauthorized(ApiError):
    """Status 401."""


class Forbidden(ApiError):
    """Status 403, also an admission webhook's denial."""


class NotFound(ApiError):
    """Status 404."""


class Conflict(ApiError):
    """Status 409: read the object again and retry."""


class AlreadyExists(Conflict):
    """Status 409 on create."""


class Gone(ApiError):
    """Status 410: the resourceVersion or continue token is too old."""


class Invalid(ApiError):
    """Status 422: the object fails validation."""


class TooManyRequests(ApiError):
    """Status 429. `retry_after` is in seconds, None if the server gave no time."""


class ServerError(ApiError):
    """Status 5xx."""


class Unreachable(ApiError):
    """No response within the request's timeout (status 0)."""


class NotLeader(StowageError):
    """The client refused a write because this process lost the Lease or cannot prove that it holds it."""


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

# A message may contain a whole pod template (kilobytes); the cause is at its end.
_MESSAGE_LIMIT = 2000


def api_error(status: int, reason: str, message: str, retry_after: float | None = None) -> ApiError:
    """Returns the error for an HTTP response by status and reason. Long messages keep their head and end."""
    if len(message) > _MESSAGE_LIMIT:
        message = f"{message[:500]} ... {message[-(_MESSAGE_LIMIT - 500) :]}"
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status >= 500 else ApiError
    return kind(status, reason, message, retry_after)
