"""What the pending queues remember of answers given, beyond who was refused: a snapshot has to keep it. Values only.

Made and taken back by queues.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.decision import Reason
from admission.engine.queue.lacks import Lack


@dataclass(frozen=True, slots=True)
class Memory:
    """By key of workload. `lacks`: what those that were refused wait for; `short`: for want of how much quota those were last
    refused that are to be considered again; `untold`: who never had an answer; `returning`: who waited for victims to leave,
    and was not considered since.
    """

    lacks: Mapping[str, Lack] = field(default_factory=dict)
    short: Mapping[str, tuple[Reason, Lack]] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()
