"""Profile Exact beside Compatible on random trees; balanced placement; the encoding of large assignments.

    python -m tests.bench exact [--one 4000] [--three 1000]

Trees of 5 to 40 domains at the asked level, drawn by seed, with a gang that no domain holds alone. Stranded: slices left in the
opened domains of the asked level. Balanced placement: 2,500 nodes of 16 a rack, preferred rack, 9 x 256 pods of 8 CPUs, as one
gang and as nine one after the other, with and without a leader. One gang at 15,000 nodes beside Compatible: Kueue's requests
where several domains are needed, CPU minima of runs in turn. Decisions beside Kueue's times are in placement.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from statistics import mean
from time import perf_counter, process_time_ns

from admission.engine.decision import Proof
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Flavor,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    Profile,
    TopologyRequest,
)
from api.assignment import decode, encode
from tests.admission.engine.topology.trees import Path, PlacementCase, figures, opened
from tests.bench.placement import FIGURES, LEVELS, RACK, cluster, node, request, timed

PAIR = (Profile.COMPATIBLE, Profile.EXACT)


def one_level(random: Random) -> PlacementCase:
    """5 to 40 domains that hold up to 4 to 100 pods each."""
    most = random.choice([4, 8, 16, 32, 100])
    hosts: dict[Path, int] = {(f"h{index:02d}",): random.randint(0, most) for index in range(random.randint(5, 40))}
    return _ganged(random, hosts, 0)


def three_levels(random: Random) -> PlacementCase:
    """5 to 40 racks in 1 to 6 blocks, each of 1 to 6 hosts that hold up to 1 to 16 pods; asked for by rack."""
    blocks, most = random.randint(1, 6), random.choice([1, 4, 8, 16])
    hosts: dict[Path, int] = {}
    for rack in range(random.randint(5, 40)):
        block = f"b{random.randrange(blocks)}"
        for index in range(random.randint(1, 6)):
            hosts[block, f"r{rack:02d}", f"h{rack:02d}-{index}"] = random.randint(0, most)
    return _ganged(random, hosts, 1)


def _ganged(random: Random, hosts: dict[Path, int], requested: int) -> PlacementCase:
    """A gang that needs several domains and fits, where there is room for one."""
    room: Counter[Path] = Counter()
    for path, pods in hosts.items():
        room[path[: requested + 1]] += pods
    one, everything = max(room.values()), sum(room.values())
    last = len(next(iter(hosts))) - 1
    return PlacementCase(
        hosts, requested, last, 1, random.randint(min(one + 1, everything), everything), preferred=True
    )


def compare(name: str, draw: Callable[[Random], PlacementCase], number: int, seed: int) -> None:
    """One line on `number` trees."""
    random = Random(seed)
    stranded: dict[Profile, list[int]] = {Profile.EXACT: [], Profile.COMPATIBLE: []}
    alike: dict[Profile, list[int]] = {Profile.EXACT: [], Profile.COMPATIBLE: []}
    times: dict[Profile, list[float]] = {Profile.EXACT: [], Profile.COMPATIBLE: []}
    proofs: Counter[str] = Counter()
    more = fewer = worse = done = 0
    while done < number:
        case = draw(random)
        found = {}
        ledger = case.ledger()
        for profile in stranded:
            requested = [case.request(profile)]
            start = perf_counter()
            found[profile] = ledger.placement.place(requested)
            times[profile].append((perf_counter() - start) * 1000)
        exact = found[Profile.EXACT]
        if not exact.fits or not exact.certificates["main"].cost:
            continue
        done += 1
        proofs[exact.certificates["main"].proof] += 1
        cost = {at: figures(case, opened(case, result.assignments["main"])) for at, result in found.items()}
        ours, theirs = cost[Profile.EXACT], cost[Profile.COMPATIBLE]
        at = case.requested + 1
        for profile in stranded:
            stranded[profile].append(cost[profile][at])
            if ours[0] == theirs[0]:
                alike[profile].append(cost[profile][at])
        more, fewer = more + (ours[0] > theirs[0]), fewer + (ours[0] < theirs[0])
        worse += ours > theirs
    print(
        f"{name}: {done} trees; more domains {more}, fewer {fewer}, worse in the objective {worse}; "
        f"optimal {proofs[Proof.OPTIMAL]}; stranded on average {_beside(stranded)}; "
        f"where both open as many domains, {len(alike[Profile.EXACT])} trees: {_beside(alike)}; "
        f"ms {_beside(times)}, at most {max(times[Profile.EXACT]):.1f}"
    )


def _beside(numbers: Mapping[Profile, Sequence[float]]) -> str:
    """Averages of Exact and Compatible."""
    if not all(numbers.values()):
        return "none"
    ours, theirs = (mean(numbers[profile]) for profile in (Profile.EXACT, Profile.COMPATIBLE))
    return f"{ours:.2f}, Compatible {theirs:.2f} ({ours / max(theirs, 1e-9):.0%})"


def beside(repeat: int) -> None:
    """One homogeneous gang at 15,000 nodes in both profiles, taken in turn."""
    rows = json.loads(FIGURES.read_text())["find"] if FIGURES.exists() else []
    requested = [row for row in rows if row["nodes"] == 15_000 and row["fits"]]
    total = dict.fromkeys(PAIR, 0.0)
    ledgers = {(row["shape"], row["fill"]): cluster(15_000, row["shape"], row["fill"]) for row in requested}
    for row in requested:
        ledger = ledgers[row["shape"], row["fill"]]
        requests = {some: [request(row["shape"], row["mode"], row["level"], row["pods"], some)] for some in PAIR}
        certificate = ledger.placement.place(requests[Profile.EXACT]).certificates["main"]
        if not certificate.cost:
            continue
        best = dict.fromkeys(PAIR, float("inf"))
        for _ in range(repeat):
            for some in PAIR:
                start = process_time_ns()
                ledger.placement.place(requests[some])
                best[some] = min(best[some], (process_time_ns() - start) / 1e6)
        for some in PAIR:
            total[some] += best[some]
        name = f"{row['fill']} {row['shape']} {row['pods']} {row['mode']} {row['level'].rpartition('-')[2]}"
        print(f"15,000 nodes, {name}: {_ratio(best)}, {certificate.proof}, {certificate.expanded} expanded")
    print(f"15,000 nodes, all where several domains are needed: {_ratio(total)}")


def _ratio(ms: Mapping[Profile, float]) -> str:
    ours, theirs = ms[Profile.EXACT], ms[Profile.COMPATIBLE]
    return f"{ours:.2f} ms, Compatible {theirs:.2f} (x {ours / max(theirs, 1e-9):.2f}, at most 2)"


def balanced(repeat: int) -> None:
    """Balanced placement at 2,500 nodes."""
    ledger = Ledger(PlacementOptions(balanced=True, profile=Profile.COMPATIBLE))
    ledger.apply(Flavor("tas", {"tas-node": "true"}, topology="default", levels=LEVELS))
    for index in range(2500):
        ledger.apply(node(index))
    for leader in (False, True):
        many = [request for index in range(9) for request in gang(f"g{index}", 256, leader=leader)]
        for name, requested in (
            ("one gang of 2,304", gang("g", 9 * 256, leader=leader)),
            ("nine of 256 in turn", many),
        ):
            if not ledger.placement.place(requested).fits:
                raise SystemExit(f"balanced placement, {name}: does not fit")
            ms = timed(lambda requested=requested: ledger.placement.place(requested), repeat)  # type: ignore[misc]  # mypy: defaults of lambdas
            print(
                f"balanced, {name}{', each with a leader' if leader else ''}: {ms:.1f} ms (Kueue {62 if leader else 33})"
            )


def gang(name: str, pods: int, *, leader: bool) -> list[PlacementRequest]:
    """Workers of 8 CPUs, and a leader of one beside them."""
    topology = TopologyRequest(preferred=RACK, group=name if leader else None)
    sets = [PodSet(f"{name}-workers", pods, {"cpu": 8000}, topology=topology)]
    if leader:
        sets.append(PodSet(f"{name}-leader", 1, {"cpu": 1000}, topology=replace(topology)))
    return [PlacementRequest(one, "tas", one.count) for one in sets]


def encoding(repeat: int) -> None:
    """40,000 and 150,000 hosts to the compact form and back."""
    for number in (40_000, 150_000):
        domains = [((f"node-{index:06d}",), 8) for index in range(number)]
        pools = [((f"pool-{index // 500:03d}-node-{index:06d}",), 1 + index % 8) for index in range(number)]
        for name, some in (("one pool", domains), ("pools of 500", pools)):
            made = encode((HOSTNAME_LABEL,), some)
            if decode(made) != some:
                raise SystemExit(f"encoding {number} domains loses some")
            ms = timed(lambda some=some: encode((HOSTNAME_LABEL,), some), repeat)  # type: ignore[misc]  # mypy: defaults of lambdas
            print(f"encoding {number} domains, {name}: {ms:.1f} ms")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print. `arguments`: the command line's unless given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", type=int, default=4000)
    parser.add_argument("--three", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--beside", type=int, default=300, help="runs of each profile at 15,000 nodes")
    given = parser.parse_args(arguments)
    compare("one level", one_level, given.one, given.seed)
    compare("three levels", three_levels, given.three, given.seed)
    beside(given.beside)
    balanced(given.repeat)
    encoding(given.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
