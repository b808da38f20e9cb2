"""Resolves the paths of a JobKind in a job, and so finds the job's pod sets. Pure.

Jobs are untrusted: an unreadable field raises InvalidObject with its path, its value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from admission.integrations.base import Job
from admission.integrations.paths import Location, fields, value_at, written
from api.errors import InvalidObject
from api.job_kinds import Factor, PodSetRule

MOST_PODS: Final = 2**31 - 1
_FROM_OBJECT: Final = "$."
FROM_AROUND: Final = "^."


@dataclass(frozen=True, slots=True)
class DeclaredPodSet:
    """A job's declaration of one pod set."""

    at: Location
    """Its path in the job."""
    name: str
    value: Mapping[str, Any]
    around: Any
    """The entry or object that contains it."""
    rule: PodSetRule
    around_at: Location = ()
    """The path of that in the job."""
    position: int = 0
    """Its index there."""
    template: Mapping[str, Any] | None = None
    """Set only where a function of the kind computes it."""
    count: int | None = None
    """Set only where a function of the kind computes it."""
    topology: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments about pod order for `topology_request`, where a function computes template and count."""

    @property
    def template_at(self) -> Location:
        """The path of the pod template."""
        return (*self.at, *fields(self.rule.template or ""))


def entries_of(job: Job, rule: PodSetRule) -> Iterator[DeclaredPodSet]:
    """Yields the pod sets of one rule, in order. Raises InvalidObject."""
    if rule.each is None:
        yield DeclaredPodSet((), rule.name or "main", job, job, rule)
        return
    yield from _walk(job, rule, rule.each.split("."), (), (), (), 0)


def _walk(
    job: Job,
    rule: PodSetRule,
    steps: Sequence[str],
    at: Location,
    names: tuple[str, ...],
    around_at: Location,
    position: int,
) -> Iterator[DeclaredPodSet]:
    """Yields the entries below `at` that the remaining `steps` lead to."""
    value = value_at(job, at)
    if not steps:
        if not isinstance(value, Mapping):
            raise InvalidObject(written(at), value, "must be an object", name_of(job))
        name = "-".join(names or (rule.name or "main",)).lower()
        yield DeclaredPodSet(at, name, value, value_at(job, around_at), rule, around_at, position)
        return
    step, rest = steps[0], steps[1:]
    if not step.endswith(("[]", "{}")):
        if value_at(job, (*at, step)) is not None or any(each.endswith(("[]", "{}")) for each in rest):
            yield from _walk(job, rule, rest, (*at, step), names, around_at, position)
        elif rule.default_template is not None and not rest:
            yield DeclaredPodSet((*at, step), rule.name or "main", {}, value_at(job, around_at), rule, around_at)
        return
    at = (*at, step[:-2])
    below = value_at(job, at)
    if below is None:
        return
    items: Iterator[tuple[int | str, str]] | list[tuple[int | str, str]]
    items = (
        _listed(job, rule, at, below) if step.endswith("[]") else [(key, key) for key in _keys(job, rule, at, below)]
    )
    for number, (key, name) in enumerate(items):
        inner = (*at, key) if rest else around_at
        yield from _walk(job, rule, rest, (*at, key), (*names, name), inner, number)


def _listed(job: Job, rule: PodSetRule, at: Location, entries: Any) -> Iterator[tuple[int | str, str]]:
    if not isinstance(entries, list):
        raise InvalidObject(written(at), entries, "must be a list", name_of(job))
    for number, entry in enumerate(entries):
        name = value_at(entry, fields(rule.name_path))
        if not isinstance(name, str) or not name:
            where = written((*at, number, *fields(rule.name_path)))
            raise InvalidObject(where, name, "must be the name of a pod set", name_of(job))
        yield number, name


def _keys(job: Job, rule: PodSetRule, at: Location, entries: Any) -> list[str]:
    if not isinstance(entries, Mapping):
        allowed = f"must have at least one of {', '.join(rule.order)}" if rule.order else "must be a map"
        raise InvalidObject(written(at), entries, allowed, name_of(job))
    for key in entries:
        if rule.order and key not in rule.order:
            raise InvalidObject(written(at), key, f"must be one of {', '.join(rule.order)}", name_of(job))
    return [key for key in rule.order if key in entries] if rule.order else sorted(entries)


@dataclass(frozen=True, slots=True)
class PodCount:
    """A pod set's number of pods and, if the job is elastic and may start with fewer, the minimum to start with."""

    pods: int
    least: int | None = None


def count_of(job: Job, entry: DeclaredPodSet) -> PodCount:
    """Returns the product of the rule's factors, the first clamped to its elastic bounds. Raises InvalidObject."""
    if entry.count is not None:
        return PodCount(entry.count)
    if entry.rule.suspended is not None and value_at(entry.value, fields(entry.rule.suspended)) is True:
        return PodCount(0)
    numbers = [number_of(job, entry, factor) for factor in entry.rule.count]
    if not numbers:
        return PodCount(1)
    low, high = _bounds(job, entry)
    first = min(max(numbers[0], low or 0), high)
    pods, rest = first, 1
    for number in numbers[1:]:
        rest *= number
    pods *= rest
    if pods > MOST_PODS:
        raise InvalidObject(written(entry.at), pods, f"must have at most {MOST_PODS} pods", name_of(job))
    least = max(1, (low or 0) * rest)
    return PodCount(pods, least if low is not None and least < pods else None)


def _bounds(job: Job, entry: DeclaredPodSet) -> tuple[int | None, int]:
    """Returns the minimum and maximum of an elastic pod set's first factor. Raises InvalidObject."""
    rule = entry.rule.elastic
    if rule is None or (rule.keys and entry.at[-1:] and entry.at[-1] not in rule.keys):
        return None, MOST_PODS
    (_, low), (where, high) = _bound(job, entry, rule.minimum), _bound(job, entry, rule.maximum)
    if low is not None and high is not None and high < low:
        raise InvalidObject(where, high, f"must be at least {low} ({rule.minimum})", name_of(job))
    return low, MOST_PODS if high is None else high


def _bound(job: Job, entry: DeclaredPodSet, path: str | None) -> tuple[str, int | None]:
    """Returns the path of a bound, for messages, and its number if the job sets one."""
    if path is None:
        return "", None
    where, value = _found(job, entry, path)
    return where, None if value is None else _whole(job, where, value)


def number_of(job: Job, entry: DeclaredPodSet, factor: Factor) -> int:
    """Returns one factor of the pod count. Raises InvalidObject."""
    where, value = _found(job, entry, factor.path)
    number = factor.default if value is None else _whole(job, where, value)
    return number if factor.least is None else max(number, factor.least)


def _found(job: Job, entry: DeclaredPodSet, path: str) -> tuple[str, Any]:
    """Resolves a path relative to the pod set: returns the full path, for messages, and the value."""
    for mark, start in ((_FROM_OBJECT, job), (FROM_AROUND, entry.around)):
        if path.startswith(mark):
            return path, value_at(start, fields(path.removeprefix(mark)))
    return written((*entry.at, *fields(path))), value_at(entry.value, fields(path))


def _whole(job: Job, where: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_PODS:
        raise InvalidObject(where, value, f"must be a whole number from 0 to {MOST_PODS}", name_of(job))
    return value


def name_of(job: Job) -> str:
    """Returns the job's name, for messages."""
    return str((job.get("metadata") or {}).get("name") or "")
