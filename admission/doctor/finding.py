"""What a check declares, and what it finds. Values only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from admission.doctor.question import Question
from admission.doctor.view import View
from api.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `command` fixes it in a shell; if a person must choose, it begins with `#`."""

    object: str
    what: str
    command: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a name, what it reads, what can be wrong, why that matters, what its commands do, and the function."""

    name: str
    reads: tuple[Resource | Question, ...]
    wrong: str
    why: str
    fixes: str
    find: Callable[[View], Iterable[Finding]]
