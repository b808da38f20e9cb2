"""`stowage doctor`: what is wrong with an installation and its cluster, why it matters, and the command that fixes it.

Writes nothing; access reviews and two dry runs are its only requests that are not reads. Exit codes: 0 when nothing is wrong, 1
when something is, 2 when the cluster cannot be read, or when a check cannot run and the others find nothing.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from admission.cli.connection import connect, worded
from admission.cli.local_cluster.install import CONFIG
from admission.doctor import checks
from admission.doctor.expected import expected
from admission.doctor.finding import Check, Finding
from admission.doctor.migrating_kinds import fates
from admission.doctor.preflight import CHECKS as PREFLIGHT
from admission.doctor.read import look
from admission.doctor.report import Report, examined, plain
from api.errors import StowageError

HEALTHY, FINDINGS, NOT_LOOKED = 0, 1, 2
_SHOWN = 10
_MOST_JSON = 1000
_NAMESPACE, _KUEUE_NAMESPACE = "stowage-system", "kueue-system"


@dataclass(frozen=True, slots=True)
class DoctorArguments:
    """Arguments of the command; an empty namespace means the default one."""

    namespace: str = ""
    preflight: bool = False
    as_json: bool = False
    all_rows: bool = False
    kubeconfig: Path | None = None
    context: str | None = None


def run(arguments: DoctorArguments, out: Console | None = None, err: Console | None = None) -> int:
    """Runs the command and returns its exit code."""
    out, err = out or Console(), err or Console(stderr=True)
    try:
        report = asyncio.run(report_of(arguments))
    except (StowageError, OSError, TimeoutError) as failed:
        err.print(f"cannot look: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_LOOKED
    if arguments.as_json:
        out.file.write(json.dumps(to_wire(report), indent=2) + "\n")
    else:
        _print(report, out, _MOST_JSON if arguments.all_rows else _SHOWN)
        out.print(_verdict(arguments, report), soft_wrap=True, highlight=False, markup=False)
        for note in report.notes if not (report.findings or report.unread) else ():
            out.print(f"  {note}", soft_wrap=True, highlight=False, markup=False)
    if report.findings:
        return FINDINGS
    return NOT_LOOKED if report.unread else HEALTHY


async def report_of(arguments: DoctorArguments) -> Report:
    """Looks at the cluster and returns what the checks found. Raises StowageError if it does not answer."""
    namespace = arguments.namespace or (_KUEUE_NAMESPACE if arguments.preflight else _NAMESPACE)
    every: Sequence[Check] = PREFLIGHT if arguments.preflight else checks.ALL
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        view = await look(kube, namespace, expected(CONFIG, namespace), every, _kubectl(arguments))
    report = examined(view, every)
    return replace(report, notes=tuple(map(plain, fates(view)))) if arguments.preflight else report


def _kubectl(arguments: DoctorArguments) -> str:
    """Returns the beginning of commands, for the same cluster."""
    options = [f"--kubeconfig={arguments.kubeconfig}"] if arguments.kubeconfig else []
    options += [f"--context={arguments.context}"] if arguments.context else []
    return shlex.join(["kubectl", *options])


def to_wire(report: Report) -> dict[str, object]:
    """Returns the report as JSON; at most 1,000 findings of a check."""
    return {
        "findings": [
            {"check": check.name, "object": each.object, "what": each.what, "why": check.why, "command": each.command}
            for check, findings in report.findings
            for each in findings[:_MOST_JSON]
        ],
        "counts": {check.name: len(findings) for check, findings in report.findings},
        "passed": [check.name for check in report.passed],
        "notLookedAt": dict(report.unread),
        "cut": list(report.cut),
        "notes": list(report.notes),
    }


def _print(report: Report, out: Console, most: int) -> None:
    for check, findings in report.findings:
        out.print(Text(check.name, style="bold red").append(f": {check.why}", style="default"), soft_wrap=True)
        for each in findings[:most]:
            _print_finding(each, out)
        if len(findings) > most:
            out.print(f"  and {len(findings) - most} more (--all)", soft_wrap=True, highlight=False)
    for name, why in report.unread.items():
        out.print(Text(name, style="yellow").append(f": not looked at: {why}", style="default"), soft_wrap=True)
    for note in report.cut:
        out.print(Text(note, style="yellow"), soft_wrap=True)


def _print_finding(finding: Finding, out: Console) -> None:
    out.print(Text(f"  {finding.object} {finding.what}"), soft_wrap=True)
    out.print(Text(f"    {finding.command}", style="cyan"), soft_wrap=True)


def _verdict(arguments: DoctorArguments, report: Report) -> str:
    number = sum(len(findings) for _, findings in report.findings)
    looked = f"{_counted(len(report.passed), 'check')} passed"
    counted = _counted(number, "finding")
    if arguments.preflight:
        ready = "not known whether ready" if report.unread else "ready"
        verdict = "not ready" if number else ready
        return f"{verdict} to migrate: {looked}, {counted}"
    if number or report.unread:
        return f"{looked}, {counted}"
    return f"nothing is wrong{' in what was looked at' if report.cut else ''}: {looked}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
