"""Adds hosts to the assignments of a topology with a lowest level wider than the host, once any pod has a term.

Below a lowest level such as the rack, kube-scheduler chooses the host, which is sufficient while only free capacity matters.
It is not once any pod has a term: terms of other gangs depend on the host that the scheduler chooses, a spread constraint
considers only hosts of the rack, full and cordoned ones included, and pods with affinity to each other must all be in the
same zone. So from then on the domains of every assignment have the hostname after the path of the lowest level. Called by
place_group.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from admission.engine.model import HOSTNAME_LABEL, Assignment, DomainCount
from admission.engine.topology.compatible.tree_search import Found
from admission.engine.topology.count import Numbers
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree


def names_hosts(tree: Tree) -> bool:
    """Reports whether assignments of this tree name hosts below the lowest level."""
    return tree.shape.hidden_nodes and tree.neighbours.watching


def on_hosts(tree: Tree, pods: Ints) -> Assignment | None:
    """Returns the assignment of these pods, given by row; None if a node with pods has no hostname of its own."""
    domains = list(_domains(tree, pods))
    if any(domain is None for domain in domains):
        return None
    return Assignment(tree.host_levels, tuple(domain for domain in domains if domain is not None))


def _domains(tree: Tree, pods: Ints) -> Iterator[DomainCount | None]:
    for row in tree.rows.in_order(np.flatnonzero(pods).tolist()):
        node = tree.matcher.node(row)
        host = None if node is None else node.labels.get(HOSTNAME_LABEL)
        if host is None or tree.row_of_host.get(host) != row:
            yield None
        else:
            yield DomainCount((*tree.rows.paths[row][:-1], host), int(pods[row]))


def beside_leader(tree: Tree, domains: Found, rows: Numbers) -> tuple[Ints, Ints] | None:
    """Returns the workers and the leader by row, given them by lowest domain; None if no row takes the leader.

    `rows` are the counts of the rows. The row of the leader's domain that loses the fewest workers takes it, the first by name.
    """
    holds, leader = rows.pod.copy(), np.zeros(tree.rows.size, dtype=np.int64)
    for domain in domains.ids[domains.leaders > 0].tolist():
        some = [row for row in tree.rows_of_domain(domain) if rows.leader is not None and rows.leader[row] > 0]
        if not some:
            return None
        row = min(some, key=lambda row: int(rows.pod[row] - rows.pod_l[row]))
        leader[row], holds[row] = 1, rows.pod_l[row]
    workers = filled(tree, domains.ids, domains.pods, holds)
    return (workers, leader) if int(workers.sum()) == int(domains.pods.sum()) else None


def filled(tree: Tree, ids: Ints, pods: Ints, holds: Ints) -> Ints:
    """Returns the pods by row, given the pods of each lowest domain; rows with most capacity are filled first.

    `holds` is the number of pods that fit into each row.
    """
    pods_by_row = np.zeros(tree.rows.size, dtype=np.int64)
    for domain, left in zip(ids.tolist(), pods.tolist(), strict=True):
        for row in sorted(tree.rows_of_domain(domain), key=lambda row: -int(holds[row])):
            pods_by_row[row] = min(left, int(holds[row]))
            left -= int(pods_by_row[row])
    return pods_by_row
