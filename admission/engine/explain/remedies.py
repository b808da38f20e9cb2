"""Searches the smallest changes that would admit a waiting workload, each tried on the ledger before it is named.

explain.py calls it. First come changes of one kind: what the owner could request instead (workload_changes.py), which
workloads would have to finish (finishing.py), what an administrator could add (capacity_changes.py). If quota and nodes are
both short, possibly only the end of other workloads suffices as a single change: then each trial raises the missing quota, and
the remedy names the quota and what else is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from admission.engine.explain import workload_changes
from admission.engine.explain.capacity_changes import covering, missing_quota, more_nodes
from admission.engine.explain.changes import (
    AddNodes,
    AnswerCheck,
    Change,
    CoverResource,
    DropAffinity,
    DropCheck,
    DropSelector,
    FewerPods,
    Finish,
    LetEvict,
    LetReclaim,
    LimitTime,
    LowerMinimum,
    LowerRequest,
    NameLevel,
    RaiseQuota,
    RelaxTopology,
    Remedy,
    RequestResource,
    SoftenConstraint,
    Tolerate,
)
from admission.engine.explain.finishing import UnplacedGroup, finishing
from admission.engine.explain.quotas import RelatedQueues
from admission.engine.explain.trials import Trials

_EFFORT: tuple[type[Change], ...] = (
    NameLevel,
    RequestResource,
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
    LetReclaim,
    RaiseQuota,
    AnswerCheck,
    DropCheck,
    CoverResource,
    AddNodes,
)
"""Kinds of changes by effort: changes without cost first, then waiting, then giving something up."""

_OPENING = (Tolerate, DropSelector, DropAffinity)

Search = Callable[[Trials], Iterator[Change]]


def remedies(
    trials: Trials, unplaced_groups: Sequence[UnplacedGroup], related: RelatedQueues, *, alone: bool
) -> tuple[Remedy, ...]:
    """Returns the remedies found, the easiest first.

    `unplaced_groups` were not placed; `related` are the queues that share the queue's quota; `alone` means that no end of
    other workloads would help.
    """
    ways = list(covering(trials))
    if enough := [Remedy(covers) for covers in ways if trials.admits(*covers)]:
        return ranked(enough)
    for covers in ways:
        if listed := _remedies(trials.on_top_of(covers), unplaced_groups, related, alone=False):
            return ranked(Remedy((*covers, *one.changes)) for one in listed)
    return ranked(_remedies(trials, unplaced_groups, related, alone=alone))


def _remedies(
    trials: Trials, unplaced_groups: Sequence[UnplacedGroup], related: RelatedQueues, *, alone: bool
) -> list[Remedy]:
    raises, suffices = missing_quota(trials)
    remedies_by_effort = [Remedy(raises)] if suffices else []
    if not alone:
        short = [(change.flavor, change.resource) for change in raises]
        if (finish := finishing(trials, unplaced_groups, related, short)) is not None:
            remedies_by_effort.append(Remedy((finish,)))
    kinds: list[Search] = [
        workload_changes.renamed,
        workload_changes.requesting,
        workload_changes.relaxed,
        workload_changes.softened,
        workload_changes.tolerating,
        workload_changes.unselecting,
    ]
    kinds += [lambda t: _one(more_nodes(t, unplaced_groups)), workload_changes.lowered, workload_changes.fewer]
    for kind in kinds:
        changes = list(kind(trials))
        remedies_by_effort += [Remedy((change,)) for change in changes]
        if raises and not suffices and not changes:
            remedies_by_effort += [Remedy((*raises, change)) for change in kind(trials.on_top_of(raises))]
    if not any(isinstance(change, _OPENING) for remedy in remedies_by_effort for change in remedy.changes):
        remedies_by_effort += [Remedy(opened)] if (opened := workload_changes.opened(trials)) else []
        if not opened and raises and not suffices:
            remedies_by_effort += (
                [Remedy((*raises, *opened))] if (opened := workload_changes.opened(trials.on_top_of(raises))) else []
            )
    return remedies_by_effort


def check_remedies(trials: Trials, related: RelatedQueues) -> tuple[Remedy, ...]:
    """Returns what makes a queue active that only admission checks keep inactive, with what else the workload needs."""
    queue = trials.queue
    checks = tuple(
        (AnswerCheck if one.supported else DropCheck)(queue.name, one.name, one.controller) for one in queue.unanswered
    )
    if not checks or not queue.only_checks:
        return ()
    if trials.admits(*checks):
        return (Remedy(checks),)
    listed = _remedies(trials.on_top_of(checks), (), related, alone=False)
    return ranked(Remedy((*checks, *one.changes)) for one in listed)


def ranked(listed: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """Returns the remedies sorted by effort, the easiest first."""
    return tuple(sorted(listed, key=_rank))


def _one(change: Change | None) -> Iterator[Change]:
    if change is not None:
        yield change


def _rank(remedy: Remedy) -> tuple[int, int]:
    kinds = {_OPENING[0] if isinstance(change, _OPENING) else type(change) for change in remedy.changes}
    return len(kinds), max(_EFFORT.index(type(c)) for c in remedy.changes)
