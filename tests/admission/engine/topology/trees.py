"""Small trees drawn at random, the requests on them, and the best answer by trying every set of domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Assignment,
    Flavor,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    Profile,
    SliceLayer,
    TopologyRequest,
)

FLAVOR = "tas"
LABELS = ("example.com/region", "example.com/zone", "example.com/block", HOSTNAME_LABEL)
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacementCase:
    """Hosts by path (as many names as there are levels) with the pods that fit, and a gang."""

    hosts: dict[Path, int]
    requested: int
    slice_level: int
    slice_size: int
    count: int
    preferred: bool

    @property
    def levels(self) -> tuple[str, ...]:
        """Label keys, widest first."""
        return LABELS[-len(next(iter(self.hosts))) :]

    @property
    def need(self) -> int:
        """Slices."""
        return self.count // self.slice_size

    def request(self, profile: Profile) -> PlacementRequest:
        """The gang as a pod set."""
        levels = self.levels
        plain = self.slice_level == len(levels) - 1 and self.slice_size == 1
        slices = () if plain else (SliceLayer(levels[self.slice_level], self.slice_size),)
        if self.preferred:
            topology = TopologyRequest(preferred=levels[self.requested], slices=slices)
        else:
            topology = TopologyRequest(slices=slices) if slices else TopologyRequest(unconstrained=True)
        return PlacementRequest(
            PodSet("main", self.count, {"cpu": 1}, topology=topology), FLAVOR, self.count, profile=profile
        )

    def ledger(self, options: PlacementOptions | None = None, order: Sequence[Path] | None = None) -> Ledger:
        """Its nodes, in this order."""
        made = Ledger(options or PlacementOptions())
        made.apply(Flavor(FLAVOR, topology="default", levels=self.levels))
        for path in self.hosts if order is None else order:
            labels = dict(zip(self.levels, path, strict=True))
            made.apply(Node(path[-1], labels, {"cpu": self.hosts[path], "pods": 1000}))
        return made


@st.composite
def cases(draw: st.DrawFn, most: int = 7) -> PlacementCase:
    """1 to 4 levels, up to `most` hosts."""
    depth = draw(st.integers(1, 4))
    top = draw(st.sampled_from([3, 6, 20]))
    hosts: dict[Path, int] = {}
    for index in range(draw(st.integers(1, most))):
        above = (draw(st.sampled_from("abc")) for _ in range(depth - 1))
        hosts[(*above, f"h{index}")] = draw(st.integers(0, top))
    preferred = draw(st.booleans())
    size = draw(st.sampled_from([1, 1, 2, 3]))
    requested = draw(st.integers(0, depth - 1)) if preferred or size > 1 else depth - 1
    if not preferred and size > 1:
        requested = 0
    level = draw(st.integers(requested, depth - 1)) if size > 1 else depth - 1
    count = draw(st.integers(1, max(1, sum(hosts.values()) + 1)))
    return PlacementCase(hosts, requested, level, size, count, preferred)


def capacities(case: PlacementCase) -> dict[Path, int]:
    """Slices by path of every domain, down to the slice level."""
    pods: Counter[Path] = Counter()
    for path, count in case.hosts.items():
        pods[path[: case.slice_level + 1]] += count
    found: Counter[Path] = Counter()
    for path, count in pods.items():
        for depth in range(1, case.slice_level + 2):
            found[path[:depth]] += count // case.slice_size
    return found


def figures(case: PlacementCase, chosen: frozenset[Path] | set[Path]) -> tuple[int, ...]:
    """How good opening these domains of the slice level is: the objective, written a second time."""
    capacity = capacities(case)
    opened = [{path[: depth + 1] for path in chosen} for depth in range(case.slice_level + 1)]
    above, below = range(case.requested, -1, -1), range(case.requested + 1, case.slice_level + 1)
    stranded = [sum(capacity[path] for path in some) - case.need for some in opened]
    figures = [*(len(opened[level]) for level in above), stranded[case.requested]]
    figures += [*(len(opened[level]) for level in below), *(stranded[level] for level in below)]
    holes = Counter(capacity[path] for path in opened[case.requested])
    return (*figures, *chain.from_iterable(sorted(holes.items(), reverse=True)))


def best(case: PlacementCase) -> tuple[int, ...] | None:
    """The least figures of all answers; None where there is none."""
    capacity = capacities(case)
    domains = [path for path in capacity if len(path) == case.slice_level + 1 and capacity[path]]
    return min((figures(case, some) for some in _subsets(domains) if _held(capacity, some) >= case.need), default=None)


def _subsets(domains: Sequence[Path]) -> Iterator[frozenset[Path]]:
    for size in range(1, len(domains) + 1):
        yield from map(frozenset, combinations(domains, size))


def _held(capacity: dict[Path, int], some: frozenset[Path]) -> int:
    return sum(capacity[path] for path in some)


def opened(case: PlacementCase, assignment: Assignment) -> set[Path]:
    """The domains of the slice level that an assignment uses."""
    by_host = {path[-1]: path for path in case.hosts}
    return {by_host[domain.values[-1]][: case.slice_level + 1] for domain in assignment.domains}
