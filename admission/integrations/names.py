"""Computes names of Workloads that are readable, unique per owner and deterministic, so creating a Workload twice fails.

The form is Kueue's, `<kind>-<owner>-<hash>`: the hash is the first five hex digits of the SHA-1 of group kind, owner name, uid
and, if one owner has several Workloads, what distinguishes them. Names are computed rather than generated because the pods of
a job carry the name before the Workload exists.
"""

from __future__ import annotations

import hashlib
from typing import Final

from api.kube.resources import Resource

HASH_LENGTH: Final = 5
MAX_LENGTH: Final = 253  # a DNS subdomain
SHORT_LENGTH: Final = 63  # a DNS label, so that the name is also a valid label value


def workload_name(kind: Resource, owner: str, uid: str, *, extra: str = "", short: bool = False) -> str:
    """Returns the name of the owner's Workload; `extra` distinguishes several Workloads of one owner."""
    identity = (kind.kind, kind.group, owner, uid, extra) if extra else (kind.kind, kind.group, owner, uid)
    return _with_hash(f"{kind.kind.lower()}-{owner}", identity, short)


def _with_hash(prefix: str, identity: tuple[str, ...], short: bool) -> str:
    digest = hashlib.sha1("\n".join(identity).encode(), usedforsecurity=False).hexdigest()
    room = (SHORT_LENGTH if short else MAX_LENGTH) - HASH_LENGTH - 1
    # A label of a DNS subdomain cannot begin with the hyphen that follows, so the prefix must not end with a dot.
    return f"{prefix[:room].rstrip('.')}-{digest[:HASH_LENGTH]}"
