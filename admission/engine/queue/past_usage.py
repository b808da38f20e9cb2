"""The past usage of LocalQueues, which orders the workloads of a ClusterQueue with admission fair sharing.

As in Kueue (KEP-4136), what a LocalQueue consumed is an average that forgets with a half-life. A sample after t seconds gives

    consumed = (1 - a) · consumed + a · held,    a = 1 - 0.5^(t / half-life)

and each admission charges an entry penalty of `a` (t: the sampling interval) times its requests at once, so that a burst of
workloads does not go before other queues until the next sample. The order compares

    usage = Σ weight(resource) · (consumed + penalties) / weight(LocalQueue)

with CPU in cores and other resources in whole units; weight 0 is infinite usage. The penalty becomes part of `consumed` when
the admission is known to be written, and is dropped if the workload loses its quota before that.

`held` is all quota that workloads of the LocalQueue hold, from the reservation on and not from the end of the admission checks,
and what is held for them on the nodes beside that (held_capacity.py). Sums are kept per LocalQueue, changed with each workload.
Time comes in as a value. Nothing is stored without rules.

PendingQueues owns it; scheduler_state.py and cycle/outcomes.py report workloads, controllers/watch/past_usage.py samples and
stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from admission.engine.model import CPU, Admission, Workload

Consumed = Mapping[str, float]
"""Amounts by resource, in the engine's units (milli-CPU, else whole units)."""

LARGEST = 2.0**62
"""No amount grows beyond this."""
_SMALLEST = 1e-9
"""Amounts below this have decayed to nothing."""
MOST_GONE = 1_000
"""So many deleted LocalQueues are remembered, since one that is created again continues its history."""


@dataclass(frozen=True, slots=True)
class UsageRules:
    """Kueue's `admissionFairSharing`: half-life and sampling interval in seconds, weights by resource (default 1)."""

    half_life: float
    interval: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)

    def part(self, seconds: float) -> float:
        """Returns `a`: the weight of new usage after so many seconds. A half-life of 0 forgets everything at once."""
        return 1.0 - 0.5 ** (max(0.0, seconds) / self.half_life) if self.half_life > 0 else 0.0


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """The stored state of a LocalQueue, for status and snapshots."""

    queue: str
    weight: float = 1.0
    consumed: dict[str, float] = field(default_factory=dict)
    updated: float | None = None
    """The last sample (epoch seconds)."""
    beside: dict[str, int] = field(default_factory=dict)
    """What was held beside quota at that time."""
    entries: dict[str, dict[str, float]] = field(default_factory=dict)
    """Penalties of admissions that are not known to be written, by workload."""


@dataclass(slots=True)
class _History:
    """The past usage of a LocalQueue."""

    weight: float = 1.0
    consumed: dict[str, float] = field(default_factory=dict)
    updated: float | None = None
    held: dict[str, int] = field(default_factory=dict)
    """The quota of its workloads."""
    beside: dict[str, int] = field(default_factory=dict)
    entries: dict[str, dict[str, float]] = field(default_factory=dict)
    gone: bool = False
    usage: float | None = None
    """Kept until something changes."""

    @property
    def forgettable(self) -> bool:
        return not (self.held or self.entries or self.consumed) and self.weight == 1.0


class PastUsage:
    """By key of the LocalQueue. `rules` is None without admission fair sharing. `changes` counts the changes of usage.

    `_changes` has for each LocalQueue the last of them, in order; of those before `_counted_from` nothing is told.
    """

    def __init__(self, rules: UsageRules | None = None) -> None:
        self.rules = rules
        self._queues: dict[str, _History] = {}
        self._holds: dict[str, tuple[str, Mapping[str, int]]] = {}
        self.changes = 0
        self._changes: dict[str, int] = {}
        self._counted_from = 0

    def __bool__(self) -> bool:
        """Reports whether admission fair sharing is configured."""
        return self.rules is not None

    def usage(self, queue: str) -> float:
        """Returns the weighted usage of a LocalQueue: the less, the earlier its workloads come."""
        history = self._queues.get(queue)
        if history is None or self.rules is None:
            return 0.0
        if history.usage is None:
            history.usage = _weighted(history, self.rules)
        return history.usage

    def usages(self) -> dict[str, float]:
        """Returns the weighted usage of all LocalQueues."""
        return {name: self.usage(name) for name in self._queues}

    def changed_since(self, changes: int) -> list[str] | None:
        """Returns the LocalQueues whose usage may have changed since `changes` had this value; None: any."""
        if changes < self._counted_from:
            return None
        names = []
        for name in reversed(self._changes):
            if self._changes[name] <= changes:
                break
            names.append(name)
        return names

    def _change(self, queue: str) -> None:
        """Records that the usage of the LocalQueue may have changed."""
        if (history := self._queues.get(queue)) is not None:
            history.usage = None
        self.changes += 1
        self._changes.pop(queue, None)
        self._changes[queue] = self.changes
        if len(self._changes) > MOST_GONE + 2 * len(self._queues):  # of LocalQueues that are gone
            self._changes.clear()
            self._counted_from = self.changes

    # ---- workloads

    def enter(self, workload: Workload, admission: Admission, now: float) -> None:
        """Charges the entry penalty of a workload that starts, and counts its quota."""
        if self.rules is None:
            return
        replaced = self._holds.get(workload.replaces, ("", {}))[1]
        part, amounts = self.rules.part(self.rules.interval), _by_resource(admission)
        self.hold(workload, admission)
        history = self._of(workload.queue)
        if history.updated is None:
            history.updated = now
        penalty = {
            name: part * more for name, amount in amounts.items() if (more := amount - replaced.get(name, 0)) > 0
        }
        history.entries[workload.key] = penalty
        self._change(workload.queue)

    def hold(self, workload: Workload, admission: Admission) -> None:
        """Counts the quota that the workload holds now, instead of what it held before."""
        if self.rules is None:
            return
        amounts = _by_resource(admission)
        if self._holds.get(workload.key) == (workload.queue, amounts):
            return
        entry = self._take_entry(workload.key)
        self.release(workload.key)
        self._holds[workload.key] = workload.queue, amounts
        history = self._of(workload.queue)
        _add(history.held, amounts, 1)
        if entry is not None:
            history.entries[workload.key] = entry
            self._change(workload.queue)

    def written(self, workload: Workload, at: float) -> None:
        """Settles the penalty of a workload whose quota reservation was written `at` that time (epoch seconds)."""
        if self.rules is None or (entry := self._take_entry(workload.key)) is None:
            return
        self.sample(workload.queue, at)
        history = self._of(workload.queue)
        for name, amount in entry.items():
            history.consumed[name] = min(LARGEST, history.consumed.get(name, 0.0) + amount)
        self._change(workload.queue)

    def release(self, key: str) -> None:
        """Ends what the workload of this key holds. A penalty that is not settled is dropped."""
        self._take_entry(key)
        queue, amounts = self._holds.pop(key, ("", {}))
        if (history := self._queues.get(queue)) is not None:
            _add(history.held, amounts, -1)
            self._forget_if_empty(queue)

    def _take_entry(self, key: str) -> dict[str, float] | None:
        queue, _ = self._holds.get(key, ("", {}))
        history = self._queues.get(queue)
        entry = history.entries.pop(key, None) if history is not None else None
        if entry is not None:
            self._change(queue)
        return entry

    # ---- LocalQueues

    def set_weight(self, queue: str, weight: float) -> None:
        """Sets the weight of a LocalQueue that exists."""
        if self.rules is not None:
            history = self._of(queue)
            history.weight, history.gone = weight, False
            self._change(queue)

    def drop(self, queue: str) -> None:
        """Records that the LocalQueue was deleted. Its history goes on in case that it is created again."""
        if (history := self._queues.get(queue)) is not None:
            history.weight, history.gone = 1.0, True
            self._change(queue)
            gone = [name for name, each in self._queues.items() if each.gone and not each.held]
            for name in gone[: max(0, len(gone) - MOST_GONE)]:
                del self._queues[name]
                self._change(name)
            if queue in self._queues:
                self._forget_if_empty(queue)

    def known(self, queue: str) -> bool:
        """Reports whether the LocalQueue has a history in memory, which counts instead of the stored one."""
        history = self._queues.get(queue)
        return history is not None and history.updated is not None

    def restore(self, queue: str, consumed: Consumed, updated: float, *, again: bool = False) -> None:
        """Restores the stored history of a LocalQueue, unless one is known; with `again` even then. Amounts that make no sense
        are left out.
        """
        if self.rules is None or (self.known(queue) and not again):
            return
        history = self._of(queue)
        sound = {name: min(LARGEST, amount) for name, amount in consumed.items() if isfinite(amount) and amount > 0}
        history.consumed, history.updated = sound, updated
        self._change(queue)

    def sample(self, queue: str, now: float, beside: Mapping[str, int] | None = None) -> None:
        """Brings the history of a LocalQueue to `now` (epoch seconds).

        `beside` is what is held for its workloads beside their quota now; None: as at the last sample.
        """
        if self.rules is None:
            return
        history = self._of(queue)
        if beside is not None:
            history.beside = dict(beside)
        if history.updated is None or self.rules.half_life <= 0:
            history.updated, history.consumed = now, {} if self.rules.half_life <= 0 else history.consumed
        elif now > history.updated:
            _average(history, self.rules.part(now - history.updated))
            history.updated = now
        self._change(queue)
        self._forget_if_empty(queue)

    def advance(self, now: float) -> None:
        """Samples each LocalQueue whose sampling interval is over, for a simulation."""
        if self.rules is None:
            return
        for name, history in list(self._queues.items()):
            if history.updated is None or now - history.updated >= self.rules.interval:
                self.sample(name, now)

    def record(self, queue: str) -> UsageRecord:
        """Returns the state of a LocalQueue."""
        history = self._queues.get(queue) or _History()
        entries = {key: dict(entry) for key, entry in sorted(history.entries.items())}
        return UsageRecord(
            queue, history.weight, dict(history.consumed), history.updated, dict(history.beside), entries
        )

    def records(self) -> Iterator[UsageRecord]:
        """Yields the state of all LocalQueues by key."""
        return map(self.record, sorted(self._queues))

    def put(self, record: UsageRecord) -> None:
        """Restores the record of a snapshot. The workloads that hold quota come before or after it."""
        history = self._of(record.queue)
        history.weight, history.updated = record.weight, record.updated
        history.consumed, history.beside = dict(record.consumed), dict(record.beside)
        history.entries = {key: dict(entry) for key, entry in record.entries.items()}
        self._change(record.queue)

    def gone(self) -> list[str]:
        """Returns the deleted LocalQueues whose history goes on, by key."""
        return sorted(name for name, history in self._queues.items() if history.gone)

    def copy(self) -> PastUsage:
        """Returns a copy for a trial."""
        made = PastUsage(self.rules)
        made._holds = dict(self._holds)
        made._queues = {
            name: replace(
                history,
                consumed=dict(history.consumed),
                held=dict(history.held),
                entries=dict(history.entries),
            )
            for name, history in self._queues.items()
        }
        return made

    def _of(self, queue: str) -> _History:
        return self._queues.setdefault(queue, _History())

    def _forget_if_empty(self, queue: str) -> None:
        """Drops a LocalQueue that is deleted or was never known, once nothing is left of it: tenants create and delete them."""
        history = self._queues[queue]
        if history.forgettable and (history.gone or history.updated is None):
            del self._queues[queue]
            self._change(queue)


def _weighted(history: _History, rules: UsageRules) -> float:
    if history.weight <= 0:
        return inf
    amounts = dict(history.consumed)
    for entry in history.entries.values():
        for name, amount in entry.items():
            amounts[name] = amounts.get(name, 0.0) + amount
    total = sum(rules.weights.get(name, 1.0) * units(name, amounts[name]) for name in sorted(amounts))
    return total / history.weight


def units(resource: str, amount: float) -> float:
    """Returns the amount in the unit that usage counts: cores for CPU, else whole units."""
    return amount / 1000 if resource == CPU else amount


def _average(history: _History, part: float) -> None:
    now: dict[str, float] = {}
    for name in sorted(history.consumed.keys() | history.held.keys() | history.beside.keys()):
        held = history.held.get(name, 0) + history.beside.get(name, 0)
        amount = history.consumed.get(name, 0.0) * (1.0 - part) + held * part
        if amount > _SMALLEST:
            now[name] = min(LARGEST, amount)
    history.consumed = now


def _by_resource(admission: Admission) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod_set in admission.pod_sets:
        for resource, amount in pod_set.usage.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _add(held: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        held[name] = held.get(name, 0) + sign * amount
        if not held[name]:
            del held[name]
