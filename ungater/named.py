"""Objects of which only the identity is kept: claims that pods wait for, and queues that have metric series."""

from __future__ import annotations

import msgspec


class _Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Named(msgspec.Struct, frozen=True, gc=False):
    """The identity of an object."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
