"""Names of Workloads: readable, unique by owner, and the same each time, so that creating one twice cannot happen.

`<kind>-<owner>-<hash>`: the hash is the first five hex digits of the SHA-1 of group kind, owner name, uid (and what
tells several Workloads of one owner apart). The form is Kueue's, so that its users and tools find what they know.
The name must be known before the Workload exists (a job's pods carry it), which is why it is computed, not generated.
Called by the job controller; nothing here knows what the names are for.
"""

from __future__ import annotations

import hashlib
from typing import Final

from api.kube.resources import Resource

HASH_LENGTH: Final = 5
MAX_LENGTH: Final = 253  # a DNS subdomain
SHORT_LENGTH: Final = 63  # a DNS label, so that the name also fits into a label's value


def workload_name(kind: Resource, owner: str, uid: str, *, extra: str = "", short: bool = False) -> str:
    """The Workload of the owner of that kind, name and uid; `extra` tells a further one of the same owner apart."""
    identity = (kind.kind, kind.group, owner, uid, extra) if extra else (kind.kind, kind.group, owner, uid)
    return _with_hash(f"{kind.kind.lower()}-{owner}", identity, short)


def _with_hash(prefix: str, identity: tuple[str, ...], short: bool) -> str:
    digest = hashlib.sha1("\n".join(identity).encode(), usedforsecurity=False).hexdigest()
    room = (SHORT_LENGTH if short else MAX_LENGTH) - HASH_LENGTH - 1
    # A part of a DNS subdomain cannot begin with the hyphen that follows: no dot may be left at the cut.
    return f"{prefix[:room].rstrip('.')}-{digest[:HASH_LENGTH]}"
