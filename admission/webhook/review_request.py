"""The fields of an AdmissionReview's request that the webhook reads."""

from __future__ import annotations

from typing import Any

import msgspec

Wire = dict[str, Any]
CREATE, UPDATE = "CREATE", "UPDATE"


class RequestUser(msgspec.Struct, frozen=True):
    """The user that sent the request (AdmissionReview.request.userInfo)."""

    username: str = ""
    groups: tuple[str, ...] = ()


class Request(msgspec.Struct, rename="camel"):
    """The fields of AdmissionReview.request that the webhook reads."""

    uid: str
    operation: str
    name: str = ""
    namespace: str = ""
    object: Wire | None = None
    old_object: Wire | None = None
    user_info: RequestUser = RequestUser()
    dry_run: bool = False
    written: Wire | None = None
    """The new object as the user sent it, if `object` already has defaults."""
    owner: Wire | None = None
    """The owner that `owner_to_read` names, as read from the API server; None if it does not exist."""
    ancestors: tuple[Wire, ...] = ()
    """The object's controller, that one's controller, and so on, as read, if `needs_ancestors`."""
    entitled: bool = True
    """Whether the user has the right that the request needs (rights.py)."""
    trace: str = ""
    """The trace context of a new object, while traces are exported."""

    @property
    def new(self) -> Wire:
        """Returns the new object, or an empty one on deletion."""
        return self.object or {}

    @property
    def old(self) -> Wire:
        """Returns the stored object, or an empty one on creation."""
        return self.old_object or {}
