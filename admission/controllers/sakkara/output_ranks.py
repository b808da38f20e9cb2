"""Assigns ranks to the pods of a group, and keeps them with their tree paths. Pure; part of `output`.

A path lists a pod's domains from the widest level down to its node. Its last part is empty while only the domains above the
node are known; a pod that may not start yet has no path. Ranks are assigned once, when as many pods as the group's size are
placed: the master has rank 0, the others follow by tree distance from it (edges of the tree whose leaves are the pods), then
by path, then by name. From then on a pod keeps its rank. The replacement of a pod takes over the nearest free rank, so a
replacement in the same domain has the same rank.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from api.text.untrusted_text import LONGEST_DATA, read_json

Path = tuple[str, ...]

UNKNOWN: Final = ""
"""The part of a path that is not known yet."""
ROOT: Final = "root"
MASTER: Final = "master"


@dataclass(frozen=True, slots=True, order=True)
class RankAssignment:
    """A rank with its pod and path; `taken` counts the pods that took over the rank."""

    rank: int
    pod: str
    path: Path = field(compare=False)
    taken: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A living pod and its path, which is empty if unknown."""

    pod: str
    path: Path

    @property
    def whole(self) -> bool:
        """Reports whether the pod's node is known."""
        return bool(self.path) and self.path[-1] != UNKNOWN


# ---- ranks


def distance(first: Path, second: Path) -> int:
    """Returns the number of tree edges between two pods, which are leaves below their nodes; 2 for the same node."""
    shared = _shared(first, second)
    return len(first) + len(second) - 2 * shared + 2


def _shared(first: Path, second: Path) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def master_of(pods: Iterable[str]) -> str:
    """Returns the first pod by name that has `master` in its name, else the first pod by name."""
    ordered = sorted(pods)
    return next((name for name in ordered if MASTER in name), ordered[0])


def by_distance(pods: Iterable[PlacedPod], master: PlacedPod) -> list[PlacedPod]:
    """Returns the pods in the order of their ranks, the master first if present."""
    return sorted(pods, key=lambda p: (p != master, distance(p.path, master.path), p.path, p.pod))


def rank_assignments(old: Sequence[RankAssignment], pods: Iterable[PlacedPod], size: int) -> tuple[RankAssignment, ...]:
    """Returns the present assignments sorted by rank, given the `old` ones; empty until `size` pods are placed once."""
    here = {pod.pod: pod for pod in pods}
    if not old:
        ready = [pod for pod in here.values() if pod.whole]
        return _first(ready) if ready and len(ready) >= size else ()
    known = {assignment.pod for assignment in old}
    new = sorted((p for p in here.values() if p.whole and p.pod not in known), key=lambda p: (p.path, p.pod))
    pairs = _matched(new, [assignment for assignment in old if assignment.pod not in here])
    taken = {
        assignment.rank: RankAssignment(assignment.rank, pod.pod, pod.path, assignment.taken + 1)
        for pod, assignment in pairs
    }
    came = {pod.pod for pod, _ in pairs}
    assignments = [
        taken.get(assignment.rank) or _followed(assignment, here.get(assignment.pod)) for assignment in sorted(old)
    ]
    return tuple(sorted([*assignments, *_further(assignments, [pod for pod in new if pod.pod not in came])]))


def _first(pods: Sequence[PlacedPod]) -> tuple[RankAssignment, ...]:
    name = master_of(pod.pod for pod in pods)
    master = next(pod for pod in pods if pod.pod == name)
    return tuple(RankAssignment(rank, pod.pod, pod.path) for rank, pod in enumerate(by_distance(pods, master)))


def _followed(assignment: RankAssignment, pod: PlacedPod | None) -> RankAssignment:
    return assignment if pod is None or not pod.whole else replace(assignment, path=pod.path)


def _further(assignments: Sequence[RankAssignment], pods: Sequence[PlacedPod]) -> Iterator[RankAssignment]:
    """Assigns the lowest free ranks to additional pods."""
    if pods:
        master, used = (
            PlacedPod(assignments[0].pod, assignments[0].path),
            {assignment.rank for assignment in assignments},
        )
        ranks = (rank for rank in count() if rank not in used)
        for rank, pod in zip(ranks, by_distance(pods, master), strict=False):
            yield RankAssignment(rank, pod.pod, pod.path)


def _matched(
    pods: Sequence[PlacedPod], assignments: Sequence[RankAssignment]
) -> list[tuple[PlacedPod, RankAssignment]]:
    """Pairs new pods with free ranks: the nearest pairs first, within a domain the lowest rank."""
    waiting, pairs = list(pods), []
    left = {assignment.rank: assignment for assignment in assignments}
    for depth in range(max((len(assignment.path) for assignment in assignments), default=0), -1, -1):
        by_domain: dict[Path, list[int]] = {}
        for assignment in left.values():
            if len(assignment.path) >= depth:
                insort(by_domain.setdefault(assignment.path[:depth], []), assignment.rank)
        still = []
        for pod in waiting:
            ranks = by_domain.get(pod.path[:depth])
            if ranks:
                pairs.append((pod, left.pop(ranks.pop(0))))
            else:
                still.append(pod)
        waiting = still
    return pairs


# ---- text form


def rank_text(assignments: Sequence[RankAssignment]) -> str:
    """Formats ranks as `[["pod-0", 0], ["pod-4", 1]]`."""
    return json.dumps([[assignment.pod, assignment.rank] for assignment in assignments])


def placement_text(pods: Mapping[str, Path]) -> str:
    """Formats paths as `{"root": {"rack-0": {"node-0": ["pod-0", "pod-4"]}}}`, leaving out pods without a path."""
    tree: dict[str, Any] = {}
    for name, path in sorted(pods.items(), key=lambda item: (item[1], item[0])):
        if path:
            _put(tree, path, name)
    return json.dumps({ROOT: tree})


def _put(tree: dict[str, Any], path: Path, pod: str) -> None:
    for part in path[:-1]:
        below = tree.setdefault(part, {})
        if isinstance(below, list):  # a node and a domain of the same name
            below = tree[part] = {UNKNOWN: below}
        tree = below
    leaf = tree.setdefault(path[-1], [])
    if isinstance(leaf, dict):
        leaf = leaf.setdefault(UNKNOWN, [])
    leaf.append(pod)


def read_assignments(rank: str | None, placement: str | None, taken: Mapping[int, int]) -> tuple[RankAssignment, ...]:
    """Parses rank assignments from both texts, sorted by rank; empty if unreadable or inconsistent."""
    paths = dict(read_placement(placement))
    try:
        pairs = [(str(pod), int(number)) for pod, number in read_json(rank or "[]", longest=LONGEST_DATA)]
    except (ValueError, TypeError):
        return ()
    if len({pod for pod, _ in pairs}) < len(pairs) or len({number for _, number in pairs}) < len(pairs):
        return ()
    return tuple(sorted(RankAssignment(number, pod, paths.get(pod, ()), taken.get(number, 0)) for pod, number in pairs))


def read_placement(text: str | None) -> Iterator[tuple[str, Path]]:
    """Yields each pod and its path; nothing if the text is unreadable."""
    try:
        whole = read_json(text or "{}", longest=LONGEST_DATA)
    except ValueError:
        return
    if isinstance(whole, dict):
        yield from _leaves(whole.get(ROOT), ())


def _leaves(tree: Any, path: Path) -> Iterator[tuple[str, Path]]:
    if isinstance(tree, dict):
        for name, below in tree.items():
            yield from _leaves(below, (*path, name))
    elif isinstance(tree, list):
        yield from ((str(pod), path) for pod in tree)
