"""Searches what the workload itself could request instead so that it is admitted: the changes that its owner can make.

remedies.py calls it. Possible changes are a less strict or an existing level, less of one resource, fewer pods, a toleration,
no selector. Each function yields changes that were found to admit the workload, the smallest of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from admission.engine.explain.changes import (
    Change,
    DropAffinity,
    DropSelector,
    FewerPods,
    LowerMinimum,
    LowerRequest,
    NameLevel,
    RelaxTopology,
    RequestResource,
    SoftenConstraint,
    Tolerate,
)
from admission.engine.explain.trials import Trials
from admission.engine.flavors.eligible import named_levels
from admission.engine.model import PODS, RESERVED_EFFECT, Flavor, PodSet, Taint, TopologyRequest
from admission.engine.requests import in_force
from admission.engine.topology.tree.match import untolerated

MOST_TOGETHER = 16
"""With more taints and selectors than this, no combination is searched."""

MOST_POD_SETS = 8
"""Only this many pod sets of a workload are tried one by one."""


def relaxed(trials: Trials) -> Iterator[Change]:
    """Yields, per group with a required level, the lowest sufficient wider level, or the level as a preference.

    If no group alone suffices, groups of the same level are relaxed together.
    """
    options = list(_climbs(trials))
    sufficient = [change for climb in options if (change := trials.first(climb)) is not None]
    if sufficient or len(options) < 2:
        yield from sufficient
        return
    names = tuple(name for climb in options for name in climb[0].pod_sets)
    if len({(climb[0].level, climb[0].to) for climb in options}) == 1:
        together = [RelaxTopology(names, step.level, step.to, step.required) for step in options[0]]
        if (change := trials.first(together)) is not None:
            yield change


def _climbs(trials: Trials) -> Iterator[list[RelaxTopology]]:
    groups: dict[str | int, list[PodSet]] = {}
    for index, pod_set in enumerate(trials.workload.pod_sets):
        if pod_set.topology is not None and pod_set.topology.required is not None:
            group = pod_set.topology.group
            groups.setdefault(index if group is None else group, []).append(pod_set)
    for members in list(groups.values())[:MOST_POD_SETS]:
        names = tuple(member.name for member in members)
        for flavor in _flavors(trials):
            topology = in_force(members[0], flavor, trials.now - trials.workload.queued).topology
            if flavor.levels is not None and topology is not None and topology.required in flavor.levels:
                at = flavor.levels.index(topology.required)
                climb = [RelaxTopology(names, topology.required, to, True) for to in reversed(flavor.levels[:at])]
                yield [*climb, RelaxTopology(names, topology.required, topology.required, False)]
                break


def renamed(trials: Trials) -> Iterator[Change]:
    """Yields, for each level that no flavor of the queue has, existing levels that would suffice, the narrowest first."""
    existing = dict.fromkeys(level for flavor in _flavors(trials) for level in reversed(flavor.levels or ()))
    by_level: dict[str, list[str]] = {}
    for pod_set in trials.workload.pod_sets:
        for level in named_levels(pod_set):
            if level not in existing:
                by_level.setdefault(level, []).append(pod_set.name)
    for level, names in by_level.items():
        changes = (NameLevel(tuple(names), level, to) for to in existing)
        yield from (change for change in changes if trials.admits(change))


def _flavors(trials: Trials) -> list[Flavor]:
    known = trials.ledger.flavors
    return [known[name] for name in trials.queue.flavors if name in known]


def softened(trials: Trials) -> Iterator[Change]:
    """Yields each hard constraint whose softening alone suffices."""
    for pod_set in trials.workload.pod_sets[:MOST_POD_SETS]:
        for constraint in (pod_set.topology or TopologyRequest()).constraints:
            change = SoftenConstraint(pod_set.name, constraint.level)
            if constraint.hard and trials.admits(change):
                yield change


def lowered(trials: Trials) -> Iterator[Change]:
    """Yields, for each resource of each pod set, the largest request with which the workload is admitted, all else equal."""
    for pod_set in trials.workload.pod_sets[:MOST_POD_SETS]:
        for resource, asked in sorted(pod_set.requests.items()):
            change = trials.most(partial(LowerRequest, pod_set.name, resource, asked), 1, asked - 1)
            if change is not None:
                yield change


def requesting(trials: Trials) -> Iterator[Change]:
    """Yields the first covered resource whose smallest request suffices, if pod sets request none that the queue covers.

    Such pods get no flavor, and so no place where the queue's flavors have a topology.
    """
    queue = trials.queue
    covered = sorted({name for group in queue.groups for name in group.resources} - {PODS})
    names = tuple(
        p.name for p in trials.workload.pod_sets if p.count and not any(p.requests.get(name) for name in covered)
    )
    changes = (RequestResource(queue.name, names, resource, 1) for resource in covered if names)
    yield from islice((change for change in changes if trials.admits(change)), 1)


def fewer(trials: Trials) -> Iterator[Change]:
    """Yields, for each pod set, the most pods with which the workload is admitted, in whole slices.

    For a pod set with a minimum the admission tries fewer pods already, so a lower minimum is searched.
    """
    for pod_set in trials.workload.pod_sets[:MOST_POD_SETS]:
        slices = (pod_set.topology or TopologyRequest()).slices
        size = max(1, slices[0].size) if slices else 1

        def fewer_slices(number: int, pod_set: PodSet = pod_set, size: int = size) -> Change:
            if pod_set.min_count is not None:
                return LowerMinimum(pod_set.name, pod_set.min_count, number * size)
            return FewerPods(pod_set.name, pod_set.count, number * size)

        least = pod_set.count if pod_set.min_count is None else min(pod_set.count, pod_set.min_count)
        change = trials.most(fewer_slices, 1, (least - 1) // size)
        if change is not None:
            yield change


def tolerating(trials: Trials) -> Iterator[Change]:
    """Yields each taint of a flavor or of its nodes whose toleration alone suffices."""
    yield from (change for change in _tolerations(trials) if trials.admits(change))


def _tolerations(trials: Trials) -> list[Change]:
    taints = sorted(_taints(trials), key=lambda taint: (taint.key, taint.value, taint.effect))
    return [Tolerate(taint) for taint in taints]


def _taints(trials: Trials) -> set[Taint]:
    in_the_way: set[Taint] = set()
    for flavor in _flavors(trials):
        tree = trials.ledger.capacity.trees.get(flavor.name)
        carried = [flavor.taints, *(() if tree is None else tree.matcher.taints())]
        for pod_set in trials.workload.pod_sets:
            tolerations = (*pod_set.tolerations, *flavor.tolerations)
            each = {taint for taints in carried for taint in taints if taint.effect != RESERVED_EFFECT}
            in_the_way.update(taint for taint in each if untolerated((taint,), tolerations) is not None)
    return in_the_way


def unselecting(trials: Trials) -> Iterator[Change]:
    """Yields each node selector label, and each required node affinity, whose removal alone suffices."""
    yield from (change for change in _selectors(trials) if trials.admits(change))


def _selectors(trials: Trials) -> list[Change]:
    labels = sorted({item for pod_set in trials.workload.pod_sets for item in pod_set.node_selector.items()})
    changes: list[Change] = [DropSelector(key, value) for key, value in labels]
    by_level = (p for p in trials.workload.pod_sets[:MOST_POD_SETS] if p.affinity is not None)
    return [*changes, *(DropAffinity(pod_set.name) for pod_set in by_level)]


def opened(trials: Trials) -> tuple[Change, ...]:
    """Returns taints, selectors and affinities whose change suffices only together; empty if more is in the way."""
    chosen = (*_tolerations(trials), *_selectors(trials))
    if not 1 < len(chosen) <= MOST_TOGETHER or not trials.admits(*chosen):
        return ()
    for change in chosen:
        rest = tuple(other for other in chosen if other != change)
        if trials.admits(*rest):
            chosen = rest
    return chosen
