"""Prints the result of `stowage explain`: the verdict, a table of levels, a table of quota, and the remedies.

The wording is that of engine/explain/wording.py, so that status and event say the same. Called by explain.py.
"""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from admission.engine.expected_start import expected
from admission.engine.explain import wording
from admission.engine.explain.explanation import Explanation, FlavorView, LevelView, QuotaView, Verdict
from admission.engine.model import Admission

_DOMAINS_SHOWN = 64
_STYLES = {
    Verdict.ADMITTED: "green",
    Verdict.RESERVED: "yellow",
    Verdict.FITS: "cyan",
    Verdict.WAITS: "yellow",
    Verdict.BLOCKED: "yellow",
    Verdict.CANNOT_RUN: "red",
}


def show(explanation: Explanation, title: str, out: Console) -> None:
    """Prints the explanation. `title` names the workload, such as `Job default/train`."""
    state = Text(str(explanation.verdict), style=_STYLES[explanation.verdict])
    where = f" in ClusterQueue {explanation.cluster_queue}" if explanation.cluster_queue else ""
    head = Text(f"{title}{where}: ").append(state)
    out.print(head.append(f" ({', '.join(explanation.codes)})" if _is_written(explanation) else ""), soft_wrap=True)
    if explanation.verdict is Verdict.CANNOT_RUN:
        _write_line(out, wording.NEVER)
    text = explanation.message or wording.headline(explanation)
    _write_line(out, text)
    if explanation.cause:
        _write_line(out, explanation.cause)
    if explanation.usage and explanation.usage not in text:
        _write_line(out, explanation.usage)
    if explanation.victims:
        _write_line(out, f"waits for {', '.join(explanation.victims)} to leave, evicted for it")
    if explanation.starts is not None and (when := expected(explanation.starts)) not in text:
        _write_line(out, when)
    if explanation.forecast:
        _write_line(out, explanation.forecast)
    for proved in explanation.proofs:
        _write_line(out, f"domains of {proved.pod_set}: {proved.certificate.text}")
    for flavor in explanation.flavors:
        _flavor(flavor, out)
    _remedies(explanation, out)


def show_placement(admission: Admission | None, unbound: str, out: Console) -> None:
    """Prints the domains of an admitted workload, one per line, widest level first, and which pods do not run."""
    if unbound:
        _write_line(out, unbound)
    for pod_set in admission.pod_sets if admission is not None else ():
        if pod_set.assignment is None:
            continue
        domains = pod_set.assignment.domains
        _write_line(out, f"pod set {pod_set.name}: {pod_set.count} pods by {', '.join(pod_set.assignment.levels)}")
        for domain in domains[:_DOMAINS_SHOWN]:
            _write_line(out, f"  {domain.count} in {'/'.join(domain.values)}")
        if len(domains) > _DOMAINS_SHOWN:
            _write_line(out, f"  and {len(domains) - _DOMAINS_SHOWN} more domains")


def show_held(text: str, out: Console) -> None:
    """Prints what is held beside the pods of a running workload."""
    if text:
        _write_line(out, text)


def _is_written(explanation: Explanation) -> bool:
    return explanation.verdict not in (Verdict.ADMITTED, Verdict.FITS)


def _write_line(out: Console, text: str) -> None:
    out.print(Padding(Text(text), (0, 0, 0, 2)))


# ---- obstacles


def _flavor(view: FlavorView, out: Console) -> None:
    out.print()
    topology = f" (topology {view.topology})" if view.topology else ""
    out.print(Text(f"flavor {view.flavor}{topology}", style="bold").append(f": {view.message}" if view.message else ""))
    if view.quota:
        out.print(Padding(_quota_table(view.quota), (0, 0, 0, 2)))
    for pod_set in view.pod_sets:
        _write_line(out, f"pod set {', '.join(pod_set.pod_sets)}: {pod_set.message}")
        if pod_set.levels:
            out.print(Padding(_level_table(pod_set.levels), (0, 0, 0, 2)))
    if not view.message and not view.pod_sets and view.topology:
        _write_line(out, "its nodes hold all pods")


def _table(*headings: str) -> Table:
    table = Table(expand=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _quota_table(views: tuple[QuotaView, ...]) -> Table:
    table = _table("quota of", "asked", "available", "at most", "short", "used by queues", "used by workloads")
    for view in views:
        amounts = [wording.quantity(view.resource, n) for n in (view.asked, view.available, view.most, view.short)]
        users = (
            f"{user.cluster_queue} {wording.quantity(view.resource, user.amount)}"
            + (f" ({wording.quantity(view.resource, user.borrowed)} borrowed)" if user.borrowed else "")
            for user in view.users
        )
        takers = (wording.taker_text(view.resource, taker) for taker in view.workloads)
        style = "yellow" if view.short else ""
        table.add_row(view.resource, *amounts, ", ".join(users), ", ".join(takers), style=style)
    return table


def _level_table(views: tuple[LevelView, ...]) -> Table:
    table = _table("level", "best domain", "holds", "everywhere", "what limits it")
    for view in views:
        limits = "\n".join(wording.limit_texts(view)) if view.fits < view.wanted or not view.leader else ""
        if not view.domain:
            limits = "no domain at all"
        holds = f"{view.fits} of {view.wanted} {view.unit}"
        name = f"{view.level} (asked)" if view.asked else view.level
        style = "yellow" if view.asked else ""
        table.add_row(name, "/".join(view.domain), holds, str(view.everywhere), limits, style=style)
    return table


# ---- remedies


def _remedies(explanation: Explanation, out: Console) -> None:
    if not _is_written(explanation) or not (explanation.flavors or explanation.remedies):
        return
    out.print()
    if explanation.remedies:
        out.print("It would be admitted, all else equal, if")
        for number, remedy in enumerate(explanation.remedies, start=1):
            out.print(Padding(Text(f"{number}. {wording.remedy_text(remedy)}"), (0, 0, 0, 2)))
    else:
        out.print("No single change that was tried would admit it.")
    if explanation.taken:
        out.print("Not enough, since others come first:")
        for taken in explanation.taken:
            _write_line(out, wording.taken_text(taken))
    if not explanation.complete:
        out.print("The search was cut off at its budget; there may be other ways.")
