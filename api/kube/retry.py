"""Decides when a request may be repeated, and after how long. The transport sends.

| failure                                     | repeated                                                  |
|---------------------------------------------|-----------------------------------------------------------|
| 429, or 5xx with Retry-After                | always: the server did nothing; after the given time      |
| connection refused                          | always: nothing was sent                                  |
| other 5xx, broken connection, no response   | only if sending twice equals sending once                 |
| other 4xx, 410, fence                       | never                                                     |

Sending twice equals sending once for reads, for writes with a precondition (resourceVersion or uid: the second write conflicts
instead of overwriting), for apply, and where the caller says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from api.errors import ApiError, ServerError, TooManyRequests, Unreachable
from api.kube.backoff import Backoff, jittered
from api.kube.settings import ClientSettings

NOT_SENT: Final = "NotSent"
"""Reason of Unreachable if the request was never sent."""
NO_ANSWER: Final = "NoAnswer"


def may_repeat(error: BaseException, repeatable: bool, longest: float) -> bool:
    """Applies the module's table. `longest` is the largest Retry-After (seconds) to wait for."""
    if isinstance(error, Unreachable):
        return repeatable or error.reason == NOT_SENT
    if isinstance(error, TooManyRequests):
        return (error.retry_after or 0.0) <= longest
    if isinstance(error, ServerError):
        return error.retry_after <= longest if error.retry_after is not None else repeatable
    return False


def pause(error: BaseException | None, failures: int, backoff: Backoff) -> float:
    """Returns the seconds before the next attempt: slightly more than the server's Retry-After, else the backoff."""
    retry_after = error.retry_after if isinstance(error, ApiError) else None
    return jittered(retry_after * 1.1, 0.09) if retry_after else backoff.delay(failures)


def retrying(settings: ClientSettings, repeatable: bool) -> AsyncRetrying:
    """Returns the retry loop for one request, which raises the last error unchanged."""
    backoff = Backoff(settings.backoff_base, settings.backoff_max)

    def wait(state: RetryCallState) -> float:
        return pause(state.outcome.exception() if state.outcome else None, state.attempt_number, backoff)

    return AsyncRetrying(
        retry=retry_if_exception(lambda error: may_repeat(error, repeatable, settings.retry_after_max)),
        wait=wait,
        stop=stop_after_attempt(settings.attempts),
        reraise=True,
    )


def has_precondition(body: Mapping[str, Any] | Sequence[Any]) -> bool:
    """Reports whether the body applies to one version only: by metadata.resourceVersion, or by a JSON patch's test of it."""
    if isinstance(body, Mapping):
        return bool((body.get("metadata") or {}).get("resourceVersion"))
    return any(
        isinstance(step, Mapping) and step.get("op") == "test" and step.get("path") == "/metadata/resourceVersion"
        for step in body
    )
