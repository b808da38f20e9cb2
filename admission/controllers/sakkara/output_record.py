"""The input of a group's results: the present state, and the record of earlier results. Pure; part of `output`.

The results in the ConfigMap are the memory, so nothing else is needed to continue after a crash. What they lack is kept in the
annotation RECORD: which Workload they belong to, and how many attempts came before.
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
from api.text.untrusted_text import read_json
from api.workloads import Workload

STATUS, MESSAGE, PLACEMENT, RANK = "status", "message", "placement", "rank"
BEGIN, END, SOLVER, TOTAL = "schedBeginTime", "schedEndTime", "schedSolverTimeMilli", "schedTotalTimeMilli"
WRITTEN: Final = (STATUS, MESSAGE, PLACEMENT, RANK, BEGIN, END, SOLVER, TOTAL)
"""The data keys that Stowage writes; all others are the user's."""
RECORD: Final = f"{STOWAGE}/sakkara-record"
"""On ConfigMaps of Sakkara's groups: what Stowage recorded of the group's attempts."""


class GroupStatus:
    """The values of a group's status."""

    PENDING: Final = "Pending"
    ASSIGNED: Final = "Assigned"
    BOUND: Final = "Bound"
    PREEMPTED: Final = "Preempted"
    FAILED: Final = "Failed"


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """Which attempt the written results belong to."""

    workload: str = ""
    """The Workload's uid."""
    evictions: int = 0
    """Its evictions so far."""
    earlier: int = 0
    """The attempts of Workloads before it."""
    over: bool = False
    """Whether the group has ended."""
    taken: Mapping[int, int] = field(default_factory=dict)
    """How often each rank was taken over."""

    @property
    def retries(self) -> int:
        """The number of attempts before this one."""
        return self.earlier + self.evictions

    @classmethod
    def read(cls, text: str | None) -> ResultRecord:
        """Parses the annotation; an unreadable one yields an empty record."""
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
        """Formats the annotation as JSON without empty values."""
        data: dict[str, Any] = {"workload": self.workload, "evictions": self.evictions, "earlier": self.earlier}
        data |= {"over": self.over, "taken": {str(rank): times for rank, times in sorted(self.taken.items()) if times}}
        return json.dumps({key: value for key, value in data.items() if value}, separators=(",", ":"))

    def attempt(self, workload: Workload | None, *, placed: bool) -> ResultRecord:
        """Returns the record of the present attempt; `placed` means this record's attempt had a placement."""
        if workload is None:
            lost = placed and bool(self.workload) and not self.over
            return replace(self, earlier=self.earlier + 1) if lost else self
        uid, evictions, over = workload.metadata.uid, _evictions(workload), ended(workload) is not None
        if uid == self.workload:
            return ResultRecord(uid, evictions, self.earlier, over, self.taken if evictions == self.evictions else {})
        if self.over or not self.workload:
            return ResultRecord(uid, evictions, 0, over)
        # The Workload was deleted before it ended. If it still had a placement, this attempt is lost; otherwise the loss was
        # counted already, possibly above.
        return ResultRecord(uid, evictions, self.retries + placed, over)

    def goes_on(self, new: ResultRecord) -> bool:
        """Reports whether the new record is of the same attempt."""
        return (self.workload, self.evictions) == (new.workload, new.evictions)


@dataclass(frozen=True)
class ResultInput:
    """The present state of a group. Times are in epoch seconds."""

    data: Mapping[str, str]
    """The content of the ConfigMap."""
    record: ResultRecord
    workload: Workload | None
    pods: Sequence[MemberPod]
    path_of: Callable[[MemberPod], Path]
    """Returns a pod's path."""
    now: float
    wanted: int = 0
    """The group's size."""
    existing: int | None = None
    """The pods that count toward the size; None for the living ones of the pods."""
    fault: str | None = None
    """Why the ConfigMap is unreadable, or None."""
    solver: float | None = None
    """The decision time that is not written yet, in milliseconds."""
    seen: float | None = None
    """When this process saw the Workload, if known."""
    bound: float | None = None
    """When this process saw the last bound pod, if known."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The Workload's conditions."""
        return self.workload.status.conditions if self.workload is not None else ()

    @cached_property
    def living(self) -> tuple[MemberPod, ...]:
        """The pods that need no replacement, sorted by name."""
        return tuple(sorted((pod for pod in self.pods if pod.lives), key=lambda pod: pod.name))

    @property
    def found(self) -> int:
        """The number of existing pods."""
        return len(self.living) if self.existing is None else self.existing

    @property
    def placed(self) -> bool:
        """Reports whether the group has an assignment and is not being evicted."""
        return (
            self.workload is not None
            and self.workload.status.admission is not None
            and is_true(self.conditions, names.QUOTA_RESERVED)
            and not is_true(self.conditions, names.EVICTED)
        )

    @property
    def size(self) -> int:
        """The number of admitted pods, or else of wanted pods."""
        admission = self.workload.status.admission if self.workload is not None else None
        admitted = sum(pod_set.count or 0 for pod_set in admission.pod_set_assignments) if admission else 0
        return admitted or self.wanted


def ended(workload: Workload) -> Condition | None:
    """Returns the Finished condition, or None if the run has not ended or its pods only ended by an eviction."""
    finished = find_condition(workload.status.conditions, names.FINISHED)
    if finished is None or finished.status != "True" or finished.reason == FinishedReason.OWNER_NOT_FOUND:
        return None
    stopped = is_true(workload.status.conditions, names.EVICTED) and finished.reason != FinishedReason.SUCCEEDED
    return None if stopped else finished


def _evictions(workload: Workload) -> int:
    stats = workload.status.scheduling_stats
    return sum(each.count for each in stats.evictions) if stats is not None else 0
