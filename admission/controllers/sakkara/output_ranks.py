"""The seats of a group: which rank each pod has, and where on the tree. Pure; part of `output`.

A path is the domains of a pod from the widest level down to its node. Its last part is empty while only the domains above
the node are known; of a pod that may not start yet nothing is known, and it has no path.

Ranks are given once, when as many pods as the group has are placed: the master is 0, the others follow by tree distance
from it (edges of the tree whose leaves are the pods), then by path, then by name. From then on a rank stays with its pod.
The successor of a pod that is gone takes over its seat: the free one nearest to where it was sent, so that a
successor that was given the same domain has the same rank.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from api.untrusted_text import LONGEST_DATA, read_json

Path = tuple[str, ...]

UNKNOWN: Final = ""
"""The part of a path that is not known yet."""
ROOT: Final = "root"
MASTER: Final = "master"


@dataclass(frozen=True, slots=True, order=True)
class RankAssignment:
    """`taken` counts the pods that took it over."""

    rank: int
    pod: str
    path: Path = field(compare=False)
    taken: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that is here and may run (or has succeeded), and its path, empty where it has none."""

    pod: str
    path: Path

    @property
    def whole(self) -> bool:
        """Whether its node is known."""
        return bool(self.path) and self.path[-1] != UNKNOWN


# ---- ranks


def distance(one: Path, other: Path) -> int:
    """Edges between two pods at these places, which are leaves below the nodes. The same node: 2."""
    shared = _shared(one, other)
    return len(one) + len(other) - 2 * shared + 2


def _shared(one: Path, other: Path) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def master_of(pods: Iterable[str]) -> str:
    """The pod with `master` in its name, else the first; of several the first by name."""
    ordered = sorted(pods)
    return next((name for name in ordered if MASTER in name), ordered[0])


def by_distance(pods: Iterable[PlacedPod], master: PlacedPod) -> list[PlacedPod]:
    """In the order of their ranks; the master, if it is one of them, comes first."""
    return sorted(pods, key=lambda p: (p != master, distance(p.path, master.path), p.path, p.pod))


def seated(old: Sequence[RankAssignment], pods: Iterable[PlacedPod], size: int) -> tuple[RankAssignment, ...]:
    """The seats as they are now, by rank. `old`: as they were. None before `size` pods are placed for the first time."""
    here = {pod.pod: pod for pod in pods}
    if not old:
        ready = [pod for pod in here.values() if pod.whole]
        return _first(ready) if ready and len(ready) >= size else ()
    known = {seat.pod for seat in old}
    new = sorted((p for p in here.values() if p.whole and p.pod not in known), key=lambda p: (p.path, p.pod))
    pairs = _matched(new, [seat for seat in old if seat.pod not in here])
    taken = {seat.rank: RankAssignment(seat.rank, pod.pod, pod.path, seat.taken + 1) for pod, seat in pairs}
    came = {pod.pod for pod, _ in pairs}
    seats = [taken.get(seat.rank) or _followed(seat, here.get(seat.pod)) for seat in sorted(old)]
    return tuple(sorted([*seats, *_further(seats, [pod for pod in new if pod.pod not in came])]))


def _first(pods: Sequence[PlacedPod]) -> tuple[RankAssignment, ...]:
    name = master_of(pod.pod for pod in pods)
    master = next(pod for pod in pods if pod.pod == name)
    return tuple(RankAssignment(rank, pod.pod, pod.path) for rank, pod in enumerate(by_distance(pods, master)))


def _followed(seat: RankAssignment, pod: PlacedPod | None) -> RankAssignment:
    return seat if pod is None or not pod.whole else replace(seat, path=pod.path)


def _further(seats: Sequence[RankAssignment], pods: Sequence[PlacedPod]) -> Iterator[RankAssignment]:
    """Pods beyond those that there were get the free ranks, from the lowest."""
    if pods:
        master, used = PlacedPod(seats[0].pod, seats[0].path), {seat.rank for seat in seats}
        ranks = (rank for rank in count() if rank not in used)
        for rank, pod in zip(ranks, by_distance(pods, master), strict=False):
            yield RankAssignment(rank, pod.pod, pod.path)


def _matched(pods: Sequence[PlacedPod], seats: Sequence[RankAssignment]) -> list[tuple[PlacedPod, RankAssignment]]:
    """Which pod takes which free seat: the nearest pairs first, of a domain's seats the lowest rank."""
    waiting, pairs = list(pods), []
    left = {seat.rank: seat for seat in seats}
    for depth in range(max((len(seat.path) for seat in seats), default=0), -1, -1):
        by_domain: dict[Path, list[int]] = {}
        for seat in left.values():
            if len(seat.path) >= depth:
                insort(by_domain.setdefault(seat.path[:depth], []), seat.rank)
        still = []
        for pod in waiting:
            ranks = by_domain.get(pod.path[:depth])
            if ranks:
                pairs.append((pod, left.pop(ranks.pop(0))))
            else:
                still.append(pod)
        waiting = still
    return pairs


# ---- as text


def rank_text(seats: Sequence[RankAssignment]) -> str:
    """`[["pod-0", 0], ["pod-4", 1]]`."""
    return json.dumps([[seat.pod, seat.rank] for seat in seats])


def placement_text(pods: Mapping[str, Path]) -> str:
    """`{"root": {"rack-0": {"node-0": ["pod-0", "pod-4"]}}}`, of pods by name; those without a path are left out."""
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


def read_seats(rank: str | None, placement: str | None, taken: Mapping[int, int]) -> tuple[RankAssignment, ...]:
    """The seats that the two texts tell, by rank; none where they cannot be read or do not go together."""
    paths = dict(read_placement(placement))
    try:
        pairs = [(str(pod), int(number)) for pod, number in read_json(rank or "[]", longest=LONGEST_DATA)]
    except (ValueError, TypeError):
        return ()
    if len({pod for pod, _ in pairs}) < len(pairs) or len({number for _, number in pairs}) < len(pairs):
        return ()
    return tuple(sorted(RankAssignment(number, pod, paths.get(pod, ()), taken.get(number, 0)) for pod, number in pairs))


def read_placement(text: str | None) -> Iterator[tuple[str, Path]]:
    """Each pod and its path; nothing where the text cannot be read."""
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
