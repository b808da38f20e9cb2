"""The smallest changes that would admit a waiting workload, each tried on the ledger before it is named.

First one change of one kind: what the owner could ask for instead (asking.py), which workloads would have to finish
(finishing.py), what an administrator could add (growing.py). Where quota and room are both short, no change of one kind but
the end of others may do: then the missing quota is raised in each trial, and what is needed besides is named with it.
Called by explain.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from admission.engine.explain import asking
from admission.engine.explain.changes import (
    AddNodes,
    Change,
    DropAffinity,
    DropSelector,
    FewerPods,
    Finish,
    LetEvict,
    LimitTime,
    LowerMinimum,
    LowerRequest,
    RaiseQuota,
    RelaxTopology,
    Remedy,
    SoftenConstraint,
    Tolerate,
)
from admission.engine.explain.finishing import Site, finishing
from admission.engine.explain.growing import missing_quota, more_nodes
from admission.engine.explain.quotas import Family
from admission.engine.explain.trying import Trying

_TROUBLE: tuple[type[Change], ...] = (
    RelaxTopology,
    SoftenConstraint,
    Tolerate,
    DropSelector,
    DropAffinity,
    LimitTime,
    Finish,
    LowerRequest,
    LowerMinimum,
    FewerPods,
    LetEvict,
    RaiseQuota,
    AddNodes,
)
"""Kinds of changes by how readily they are made: what costs nobody anything first, then waiting, then giving up something."""

Search = Callable[[Trying], Iterator[Change]]


def remedies(trying: Trying, sites: Sequence[Site], family: Family, *, alone: bool) -> tuple[Remedy, ...]:
    """The remedies found, the least trouble first.

    `sites`: what found no place; `family`: who uses the queue's quota; `alone`: no end of others would help.
    """
    raises, suffices = missing_quota(trying)
    found = [Remedy(raises)] if suffices else []
    if not alone:
        short = [(change.flavor, change.resource) for change in raises]
        if (finish := finishing(trying, sites, family, short)) is not None:
            found.append(Remedy((finish,)))
    kinds: list[Search] = [asking.relaxed, asking.softened, asking.tolerating, asking.unselecting]
    kinds += [lambda t: _one(more_nodes(t, sites)), asking.lowered, asking.fewer]
    for kind in kinds:
        changes = list(kind(trying))
        found += [Remedy((change,)) for change in changes]
        if raises and not suffices and not changes:
            found += [Remedy((*raises, change)) for change in kind(trying.upon(raises))]
    return ranked(found)


def ranked(found: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """The least trouble first."""
    return tuple(sorted(found, key=_rank))


def _one(change: Change | None) -> Iterator[Change]:
    if change is not None:
        yield change


def _rank(remedy: Remedy) -> tuple[int, int]:
    return len({type(change) for change in remedy.changes}), max(_TROUBLE.index(type(c)) for c in remedy.changes)
