"""What the results of a group are made from: what is there now, and the record of what was said before. Pure; for `output`.

The ConfigMap's own results are the memory: nothing else is needed to go on after a crash. What they do not contain
again stands in one annotation beside them (RECORD): whose results these are, and how many attempts there were before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from admission.controllers.sakkara.output_members import MemberPod
from admission.controllers.sakkara.output_ranks import Path
from api import names
from api.meta import Condition, find_condition, is_true
from api.names import STOWAGE, FinishedReason
from api.untrusted_text import read_json
from api.workloads import Workload

STATUS, MESSAGE, PLACEMENT, RANK = "status", "message", "placement", "rank"
BEGIN, END, SOLVER, TOTAL = "schedBeginTime", "schedEndTime", "schedSolverTimeMilli", "schedTotalTimeMilli"
WRITTEN: Final = (STATUS, MESSAGE, PLACEMENT, RANK, BEGIN, END, SOLVER, TOTAL)
"""The keys of the data that are ours; all others are the user's."""
RECORD: Final = f"{STOWAGE}/sakkara-record"
"""Annotation of the ConfigMap."""


class GroupStatus:
    """What a group's status may be."""

    PENDING: Final = "Pending"
    ASSIGNED: Final = "Assigned"
    BOUND: Final = "Bound"
    PREEMPTED: Final = "Preempted"
    FAILED: Final = "Failed"


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """Whose results are written: the uid of the Workload, its evictions until then, the retries before it; whether the
    group has ended; and how often each rank was taken over."""

    workload: str = ""
    evictions: int = 0
    earlier: int = 0
    over: bool = False
    taken: Mapping[int, int] = field(default_factory=dict)

    @property
    def retries(self) -> int:
        """Attempts before this one."""
        return self.earlier + self.evictions

    @classmethod
    def read(cls, text: str | None) -> ResultRecord:
        """As written; an empty one where it cannot be read."""
        try:
            given = read_json(text or "{}")
            taken = {int(rank): int(times) for rank, times in given.get("taken", {}).items()}
            return cls(
                str(given.get("workload", "")),
                int(given.get("evictions", 0)),
                int(given.get("earlier", 0)),
                bool(given.get("over", False)),
                taken,
            )
        except (ValueError, TypeError, AttributeError):
            return cls()

    def text(self) -> str:
        """As JSON; what is 0 is left out."""
        said: dict[str, Any] = {"workload": self.workload, "evictions": self.evictions, "earlier": self.earlier}
        said |= {"over": self.over, "taken": {str(rank): times for rank, times in sorted(self.taken.items()) if times}}
        return json.dumps({key: value for key, value in said.items() if value}, separators=(",", ":"))

    def attempt(self, workload: Workload | None, *, placed: bool) -> ResultRecord:
        """Of the attempt that is under way now. `placed`: places were written down for the one that this tells of."""
        if workload is None:
            lost = placed and bool(self.workload) and not self.over
            return replace(self, earlier=self.earlier + 1) if lost else self
        uid, evictions, over = workload.metadata.uid, _evictions(workload), ended(workload) is not None
        if uid == self.workload:
            return ResultRecord(uid, evictions, self.earlier, over, self.taken if evictions == self.evictions else {})
        if self.over or not self.workload:
            return ResultRecord(uid, evictions, 0, over)
        # The Workload went without having ended. If it still had places they are lost; else that was counted, be it above.
        return ResultRecord(uid, evictions, self.retries + placed, over)

    def goes_on(self, new: ResultRecord) -> bool:
        """Whether the new one is of the same attempt."""
        return (self.workload, self.evictions) == (new.workload, new.evictions)


@dataclass(frozen=True)
class ResultInput:
    """What is there now. `wanted` pods make the group, `existing` count toward it (None: those of `pods` do). `fault` is why
    its ConfigMap cannot be read, `data` all of the ConfigMap's; `path_of` tells a pod's path. `solver`: milliseconds of
    decisions that are not written yet. `seen`, `bound`: when the Workload, and the last pod that was bound, were seen, if
    that is known. Times in epoch seconds."""

    data: Mapping[str, str]
    record: ResultRecord
    workload: Workload | None
    pods: Sequence[MemberPod]
    path_of: Callable[[MemberPod], Path]
    now: float
    wanted: int = 0
    existing: int | None = None
    fault: str | None = None
    solver: float | None = None
    seen: float | None = None
    bound: float | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The Workload's."""
        return self.workload.status.conditions if self.workload is not None else ()

    @cached_property
    def living(self) -> tuple[MemberPod, ...]:
        """The pods that need no successor, by name."""
        return tuple(sorted((pod for pod in self.pods if pod.lives), key=lambda pod: pod.name))

    @property
    def found(self) -> int:
        """How many pods there are."""
        return len(self.living) if self.existing is None else self.existing

    @property
    def placed(self) -> bool:
        """Whether the group holds places."""
        return (
            self.workload is not None
            and self.workload.status.admission is not None
            and is_true(self.conditions, names.QUOTA_RESERVED)
            and not is_true(self.conditions, names.EVICTED)
        )

    @property
    def size(self) -> int:
        """As many pods as have places, else as are wanted."""
        admission = self.workload.status.admission if self.workload is not None else None
        admitted = sum(pod_set.count or 0 for pod_set in admission.pod_set_assignments) if admission else 0
        return admitted or self.wanted


def ended(workload: Workload) -> Condition | None:
    """How the group's run ended; None while it has not, or where its pods only went, as they do when it is evicted."""
    finished = find_condition(workload.status.conditions, names.FINISHED)
    if finished is None or finished.status != "True" or finished.reason == FinishedReason.OWNER_NOT_FOUND:
        return None
    stopped = is_true(workload.status.conditions, names.EVICTED) and finished.reason != FinishedReason.SUCCEEDED
    return None if stopped else finished


def _evictions(workload: Workload) -> int:
    stats = workload.status.scheduling_stats
    return sum(each.count for each in stats.evictions) if stats is not None else 0
