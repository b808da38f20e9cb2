"""Objects of which little is kept: claims that pods wait for, queues that have metric series, nodes.

Of a node only its hostname is read, and a cluster may have 100,000 of them.
"""

from __future__ import annotations

import msgspec

from api.names import HOSTNAME_LABEL


class _Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Named(msgspec.Struct, frozen=True, gc=False):
    """The identity of an object."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _HostLabels(msgspec.Struct, frozen=True, gc=False):
    hostname: str = msgspec.field(name=HOSTNAME_LABEL, default="")


class _HostMeta(_Meta, frozen=True, rename="camel", gc=False):
    labels: _HostLabels = _HostLabels()


class Host(msgspec.Struct, frozen=True, gc=False):
    """A node's identity and hostname."""

    metadata: _HostMeta = msgspec.field(default_factory=_HostMeta)

    @property
    def hostname(self) -> str:
        """The label with the hostname, which may differ from the node's name; empty without one."""
        return self.metadata.labels.hostname
