"""Where a job of a declared kind says what its pod sets are: the entries that the paths of a JobKind lead to. Pure.

Objects are foreign: whatever cannot be read raises InvalidObject with the path, what stands there and what is allowed.
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
    """What a job says of one pod set.

    `at`: where it stands; `around`: the entry (or object) that it stands in, itself at `around_at`; `position`: its number in
    that.
    `template` and `count` are set where a function of the kind says them; `topology` is then what it says of the pods' order.
    """

    at: Location
    name: str
    value: Mapping[str, Any]
    around: Any
    rule: PodSetRule
    around_at: Location = ()
    position: int = 0
    template: Mapping[str, Any] | None = None
    count: int | None = None
    topology: Mapping[str, Any] = field(default_factory=dict)

    @property
    def template_at(self) -> Location:
        """Where its pod template stands."""
        return (*self.at, *fields(self.rule.template or ""))


def entries_of(job: Job, rule: PodSetRule) -> Iterator[DeclaredPodSet]:
    """The pod sets of one rule, in order. Raises InvalidObject."""
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
    """The entries below `at`, by the steps that are left."""
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
    found: Iterator[tuple[int | str, str]] | list[tuple[int | str, str]]
    found = (
        _listed(job, rule, at, below) if step.endswith("[]") else [(key, key) for key in _keys(job, rule, at, below)]
    )
    for number, (key, name) in enumerate(found):
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


def number_of(job: Job, entry: DeclaredPodSet, factor: Factor) -> int:
    """One factor of the number of pods. Raises InvalidObject."""
    for mark, start in ((_FROM_OBJECT, job), (FROM_AROUND, entry.around)):
        if factor.path.startswith(mark):
            where, found = factor.path, value_at(start, fields(factor.path.removeprefix(mark)))
            break
    else:
        where, found = written((*entry.at, *fields(factor.path))), value_at(entry.value, fields(factor.path))
    if found is None:
        found = factor.default
    if type(found) is not int or not 0 <= found <= MOST_PODS:
        raise InvalidObject(where, found, f"must be a whole number from 0 to {MOST_PODS}", name_of(job))
    return found if factor.least is None else max(found, factor.least)


def name_of(job: Job) -> str:
    """The job's name, for messages."""
    return str((job.get("metadata") or {}).get("name") or "")
