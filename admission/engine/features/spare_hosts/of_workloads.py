"""Spare hosts of running workloads: held when a workload starts, used when one of its nodes fails, renewed by each cycle.

Nothing runs on a spare host, so which one it is need not survive a restart: a restarted controller holds those that it finds,
before it admits anything. A snapshot names them, because explanations depend on which hosts are free. The ledger counts them
like an admission that nobody can evict, on nodes and in quota. Which hosts they can be: topology/spares.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from admission.engine.cycle.placed_requests import placed_requests
from admission.engine.ledger.holds import Hold, HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Assignment, PodSetAdmission
from admission.engine.spare_quota import requested_hosts
from admission.engine.topology import spares
from admission.engine.topology.assignments.on_hosts import on_hosts

_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class HeldHosts:
    """The spare hosts of one workload by pod set, and how many it requests in total."""

    hosts: Mapping[str, tuple[str, ...]]
    wanted: int

    @property
    def names(self) -> list[str]:
        """Returns the names of all held hosts, sorted."""
        return sorted(host for hosts in self.hosts.values() for host in hosts)

    def text(self) -> str:
        """Returns a text such as `main: h3, h4`, with the number that is missing."""
        texts = [f"{pod_set}: {', '.join(hosts)}" for pod_set, hosts in self.hosts.items()]
        missing = self.wanted - len(self.names)
        missing_text = f"{missing} of {self.wanted} spare host(s) not held: no other host of the domain has room"
        return "; ".join([*texts, *([missing_text] if missing else [])])


def held(ledger: Ledger, key: str) -> HeldHosts:
    """Returns the spare hosts held for the workload that is charged under this key."""
    workload, holds = ledger.workload(key), ledger.admission(hold_key(HoldKind.SPARES, key))
    hosts = {
        got.name: tuple(domain.values[-1] for domain in got.assignment.domains)
        for got in (holds.pod_sets if holds is not None else ())
        if got.assignment is not None
    }
    return HeldHosts(hosts, 0 if workload is None else requested_hosts(workload))


def named_hosts(text: str) -> dict[str, list[str]]:
    """Returns the hosts by pod set that a `HeldHosts.text` names, at most 100 of each (the most that may be requested)."""
    parts = (part.partition(": ") for part in text.split("; "))
    return {name: hosts.split(", ")[:_MOST] for name, _, hosts in parts if hosts}


def hold(ledger: Ledger, key: str, among: Mapping[str, Collection[str]] | None = None) -> str:
    """Holds as many of the workload's spare hosts as exist. Returns why there are fewer than requested, or an empty text.

    `among`: by pod set, the only hosts to look at; None for all. `hold_missing` looks at the others.
    """
    release(ledger, key)
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or workload.evicted or not workload.asks_beside:
        return ""
    requests = list(placed_requests(ledger, workload, admission))
    if among is not None:
        requests = [on_hosts(request, "In", among.get(request.pod_set.name, ())) for request in requests]
    free = spares.present(ledger.placement.steps, requests)
    holds = tuple(_spares(admission, free.held))
    if holds:
        ledger.holds.put(Hold.beside(HoldKind.SPARES, workload, Admission(admission.cluster_queue, holds)))
    if key in ledger.holds.askers:
        ledger.journal.put(
            ledger.holds.askers,
            key,
            0 if free.shortage is None or among is not None else _generation(ledger, key),
        )
    return "" if free.shortage is None else free.shortage.message


def release(ledger: Ledger, key: str) -> list[str]:
    """Releases the workload's spare hosts and returns their names."""
    hosts = held(ledger, key).names
    ledger.holds.drop(hold_key(HoldKind.SPARES, key))
    return hosts


def hold_missing(ledger: Ledger) -> None:
    """Holds spare hosts for workloads that have lost some, or that lack some while capacity may have become free."""
    for key in sorted(ledger.holds.askers):
        if _is_short(ledger, key):
            hold(ledger, key)


def _is_short(ledger: Ledger, key: str) -> bool:
    if not _domains_exist(ledger, key):
        return True
    now = held(ledger, key)
    return len(now.names) < now.wanted and ledger.holds.askers[key] != _generation(ledger, key)


def _domains_exist(ledger: Ledger, key: str) -> bool:
    """Reports whether every domain of the spare hosts that are held for this workload still exists."""
    hold = ledger.holds.get(hold_key(HoldKind.SPARES, key))
    for got in () if hold is None else hold.admission.pod_sets:
        tree = ledger.capacity.trees.get(ledger.allocations.flavor_of(got))
        domains = () if got.assignment is None else got.assignment.domains
        if any(tree is None or tree.domain_row(domain.values) is None for domain in domains):
            return False
    return True


def settled(ledger: Ledger) -> list[str]:
    """Returns the workloads that lack spare hosts for which no host is looked for until capacity may have become free."""
    return sorted(key for key, seen in ledger.holds.askers.items() if seen and seen == _generation(ledger, key))


def settle(ledger: Ledger, keys: Iterable[str]) -> None:
    """Looks for no spare hosts of these workloads until capacity may have become free."""
    for key in keys:
        if key in ledger.holds.askers:
            ledger.journal.put(ledger.holds.askers, key, _generation(ledger, key))


def _generation(ledger: Ledger, key: str) -> int:
    """Returns a number above 0 that grows whenever its flavors may have more free capacity."""
    admission = ledger.admission(key)
    placed = admission.pod_sets if admission is not None else ()
    return 1 + sum(ledger.generation(ledger.allocations.flavor_of(got)) for got in placed)


def _usage_of(pod_set: PodSetAdmission, pods: int) -> dict[str, int]:
    return (
        {resource: amount // pod_set.count * pods for resource, amount in pod_set.usage.items()}
        if pod_set.count
        else {}
    )


def _spares(admission: Admission, assignments: Mapping[str, Assignment]) -> Iterator[PodSetAdmission]:
    for got in admission.pod_sets:
        if (hosts := assignments.get(got.name)) is not None:
            pods = sum(domain.count for domain in hosts.domains)
            yield PodSetAdmission(got.name, got.flavors, _usage_of(got, pods), pods, hosts)
