"""Runs checks on a view. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import View
from api.errors import InvalidObject

LONGEST = 600
"""Characters of a finding's text that are shown: parts of it were written by others."""
_MOST = 100_000
_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, InvalidObject)
"""Errors that a check raises for an object that lacks the form of its kind, for example because its CRD was changed."""


@dataclass(frozen=True, slots=True)
class Report:
    """What checks found."""

    findings: tuple[tuple[Check, tuple[Finding, ...]], ...]
    passed: tuple[Check, ...]
    unread: Mapping[str, str]
    """Why a check could not look, at least not at all."""
    cut: tuple[str, ...] = ()
    """What was read only in part."""
    notes: tuple[str, ...] = ()
    """Lines about what is right, for a person who goes on."""


def examined(view: View, checks: Iterable[Check]) -> Report:
    """Returns what the checks find. A check that lacks all of something that it reads does not run; one that lacks a part of it
    does not pass.
    """
    findings: list[tuple[Check, tuple[Finding, ...]]] = []
    passed: list[Check] = []
    unread: dict[str, str] = {}
    cut: list[str] = []
    for check in checks:
        if missing := [f"{_name(read)}: {view.unread[read]}" for read in check.reads if read in view.unread]:
            unread[check.name] = plain("; ".join(missing))
            continue
        try:
            shown = tuple(map(_bounded, itertools.islice(check.find(view), _MOST)))
        except _UNREADABLE as bad:
            unread[check.name] = plain(f"an object has another form than expected: {type(bad).__name__}: {bad}")
            continue
        gaps = [plain(f"{_name(read)}: {view.gaps[read]}") for read in check.reads if read in view.gaps]
        if shown:
            findings.append((check, shown))
            cut += gaps
        elif gaps:
            unread[check.name] = "; ".join(gaps)
        else:
            passed.append(check)
    cut += [f"{_name(read)}: only the first {count} were looked at" for read, count in view.cut.items()]
    return Report(tuple(findings), tuple(passed), unread, tuple(dict.fromkeys(cut)))


def _name(read: object) -> str:
    return str(read.value) if isinstance(read, Question) else str(getattr(read, "plural", read))


def _bounded(finding: Finding) -> Finding:
    # a command is for a shell, which quotes keep whole; a remark is for people
    command = plain(finding.command) if finding.command.startswith("#") else finding.command
    return Finding(plain(finding.object), plain(finding.what), command)


def plain(text: str) -> str:
    """Returns the text on one line, without control characters and at most LONGEST characters long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."
