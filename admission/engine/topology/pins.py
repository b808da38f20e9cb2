"""Names hosts for the pods of a topology whose lowest level is wider, once pods have terms for each other. Called by place.py.

Below a lowest level such as the rack the scheduler chooses the host. That is as good as our choice while all that counts is how
much room hosts have. It is not once any pod has a term: another gang is told of the host that the scheduler takes for this
one, a spread constraint sees the full and cordoned hosts of the rack alone, pods that gather in a zone have to find the same
one. So from then on the places of all pods name the host too: the path of the lowest level and the hostname.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from admission.engine.model import HOSTNAME_LABEL, Assignment, DomainCount
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree


def names_hosts(tree: Tree) -> bool:
    """Whether places name hosts below the lowest level."""
    return tree.shape.hidden_nodes and tree.neighbours.watching


def on_hosts(tree: Tree, pods: Ints) -> Assignment | None:
    """The places of these pods by row; None where a node has no hostname of its own."""
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


def filled(tree: Tree, ids: Ints, pods: Ints, holds: Ints) -> Ints:
    """The pods of each lowest domain on its rows: those that hold the most first."""
    found = np.zeros(tree.rows.size, dtype=np.int64)
    for domain, left in zip(ids.tolist(), pods.tolist(), strict=True):
        for row in sorted(tree.rows_of_domain(domain), key=lambda row: -int(holds[row])):
            found[row] = min(left, int(holds[row]))
            left -= int(found[row])
    return found
