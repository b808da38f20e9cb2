"""What a check asks of the API server besides lists of objects. Values only."""

from __future__ import annotations

from enum import StrEnum


class Question(StrEnum):
    """A question; the value names it for people."""

    RIGHTS = "rights of the processes"
    ADMISSION = "an answer of the webhook"
    CONVERSION = "a conversion by the webhook"
    OWNERS = "owners of Workloads"
    POD_OWNERS = "owners of pods"
    OUR_PODS = "pods of the processes"
    UNMANAGED = "objects of other kinds that name a queue"
