"""Several required pod sets of one workload on few racks: who misses what can be placed, and what the joint search costs.

    python -m tests.bench joint [--each 300]

For each number of pod sets, seeded instances: 3 to 8 racks of 4 hosts with up to 8 free slots each, sizes cut at random out
of 60 to 100 % of the slots. Whether an instance can be placed is decided apart from the engine, by all subsets of the
pod sets rack by rack. A second table does the same with two resources on racks of one large host: pods with GPUs and pods
without. Then the times on 64 racks of 16 hosts: 8 pod sets where one after the other finds a way, where only the search
does, where a proof is needed that nothing does, and many at random. Times are of the CPU, so that neighbours do not count.
Limit: 50 ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from time import process_time

from admission.engine.decision import PlacementResult
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Flavor,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    Profile,
    TopologyRequest,
)

RACK = "rack"
LEVELS = (RACK, HOSTNAME_LABEL)
LIMIT_MS = 50.0
Amount = tuple[int, int]
"""(GPUs, CPUs)."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Hosts by rack and what each has; pod sets as (pods, what one takes)."""

    racks: tuple[tuple[Amount, ...], ...]
    pod_sets: tuple[tuple[int, Amount], ...]

    def ledger(self, profile: Profile) -> Ledger:
        """A ledger with these nodes."""
        made = Ledger(PlacementOptions(profile=profile))
        made.apply(Flavor("f", topology="default", levels=LEVELS))
        for rack, hosts in enumerate(self.racks):
            for host, (gpus, cpus) in enumerate(hosts):
                name = f"r{rack:02d}-h{host:02d}"
                made.apply(
                    Node(name, {RACK: f"r{rack:02d}", HOSTNAME_LABEL: name}, {"gpu": gpus, "cpu": cpus, "pods": 200})
                )
        return made

    def requests(self) -> list[PlacementRequest]:
        """Each pod set wants one rack."""
        return [
            PlacementRequest(
                PodSet(f"p{i}", pods, {"gpu": gpus, "cpu": cpus}, topology=TopologyRequest(required=RACK)), "f", pods
            )
            for i, (pods, (gpus, cpus)) in enumerate(self.pod_sets)
        ]

    def feasible(self) -> bool:
        """Whether every pod set finds a rack: which sets of them the racks seen so far can hold together. By the sums of a
        rack, so exact where one host is a rack or all pods are one slot.
        """
        everything = (1 << len(self.pod_sets)) - 1
        reached = {0}
        for hosts in self.racks:
            room = [sum(host[r] for host in hosts) for r in (0, 1)]
            fitting = [mask for mask in range(everything + 1) if self._fits(mask, room)]
            reached = {have | mask for have in reached for mask in fitting if not have & mask}
        return everything in reached

    def _fits(self, mask: int, room: Sequence[int]) -> bool:
        inside = [one for i, one in enumerate(self.pod_sets) if mask >> i & 1]
        return all(sum(pods * amount[r] for pods, amount in inside) <= room[r] for r in (0, 1))


def slots(random: Random, number: int) -> Instance:
    """One shape: a slot."""
    most = [8] * number + [1] * 8
    racks = [[random.randint(0, most[rack]) for _ in range(4)] for rack in range(random.randint(3, 8))]
    pods = _sizes(random, [sum(hosts) for hosts in racks], number)
    return Instance(tuple(tuple((free, free) for free in hosts) for hosts in racks), tuple((n, (1, 1)) for n in pods))


def shapes(random: Random, number: int) -> Instance:
    """Racks of one large host, some with GPUs; pods of 1 GPU and 2 CPUs, or of 1 CPU."""
    racks = [(random.choice([0, 8, 16]), random.randint(16, 48)) for _ in range(random.randint(3, min(8, number + 1)))]
    large = [min(gpus, cpus // 2) for gpus, cpus in racks]
    with_gpu = random.randint(1, number - 1)
    pods = _sizes(random, large, with_gpu)
    rest = _sizes(
        random, [cpus - 2 * gpus for gpus, cpus in zip(large, (c for _, c in racks), strict=True)], number - with_gpu
    )
    mixed = [*((n, (1, 2)) for n in pods), *((n, (0, 1)) for n in rest)]
    random.shuffle(mixed)
    return Instance(tuple((one,) for one in racks), tuple(mixed))


def _sizes(random: Random, racks: Sequence[int], number: int) -> list[int]:
    """Sizes of pod sets: 60 to 100 % of the racks (of the largest, where there are more racks than pod sets), in two of three
    instances cut at random rack by rack, so that there is a way, else out of the sum.
    """
    load = random.randint(60, 100)
    loads = [max(1, total * load // 100) for total in sorted(racks, reverse=True)[:number]]
    if random.randrange(3) == 0:
        sizes = _cut(random, sum(loads), number)
    else:
        parts = [1] * len(loads)
        for _ in range(number - len(loads)):
            parts[random.randrange(len(loads))] += 1
        sizes = [size for load, part in zip(loads, parts, strict=True) for size in _cut(random, load, part)]
    random.shuffle(sizes)
    return sizes


def _cut(random: Random, total: int, number: int) -> list[int]:
    """So many sizes that are the total together."""
    total = max(total, number)
    cuts = sorted(random.sample(range(1, total), number - 1))
    return [after - before for before, after in zip([0, *cuts], [*cuts, total], strict=True)]


def misses(each: int) -> None:
    """The two tables."""
    for title, make in (("one shape", slots), ("two shapes", shapes)):
        print(f"{title:>10}  pod sets  instances  feasible  missed in turn  missed by Exact  Exact's worst ms")
        for number in range(2, 9):
            random = Random(f"{title} {number}")
            feasible = compatible = exact = 0
            worst = 0.0
            for _ in range(each):
                instance = make(random, number)
                possible = instance.feasible()
                ledger = instance.ledger(Profile.EXACT)
                start = process_time()
                found = ledger.placement.place(instance.requests())
                worst = max(worst, process_time() - start)
                if found.fits and not possible:
                    raise AssertionError(f"placed what cannot be placed: {instance}")
                feasible += possible
                exact += possible and not found.fits
                if possible:
                    compatible += not instance.ledger(Profile.COMPATIBLE).placement.place(instance.requests()).fits
            print(
                f"{'':>10}  {number:>8}  {each:>9}  {feasible:>8}  {compatible:>14}  {exact:>15}  {worst * 1000:>16.1f}"
            )


# ---- times


def large(sizes: Sequence[int], free: Sequence[int]) -> Instance:
    """64 racks of 16 hosts: the first ones with so many free slots, the others with 8."""
    room = [*free, *([8] * (64 - len(free)))]
    racks = tuple(tuple((n // 16 + (host < n % 16),) * 2 for host in range(16)) for n in room)
    return Instance(racks, tuple((size, (1, 1)) for size in sizes))


CASES = {
    "one after the other is enough": large([60, 50, 40, 40, 30, 30, 20, 10], [128, 96, 80, 64] * 4),
    "three to a rack, full to the last slot": large([31, 33, 36, 30, 34, 38, 48, 50], [100, 102, 98]),
    "no way: one slot too few": large([31, 33, 36, 30, 34, 38, 48, 50], [99, 102, 99]),
    "no way: 8 that share no rack, 7 racks": large([51, 52, 53, 54, 55, 56, 57, 58], [100, 99, 98, 97, 96, 95, 94]),
}


def full_racks(random: Random) -> Instance:
    """8 sizes cut out of 2 to 7 racks, often to the last slot, among racks that hold none or few of them."""
    number, base = random.randint(2, 7), random.randint(30, 200)
    free = [base + random.randint(0, random.choice([0, 3, 10, 40])) for _ in range(number)]
    small = random.randint(0, 20)
    if random.random() < 0.5:
        parts = [1] * number
        for _ in range(8 - number):
            parts[random.randrange(number)] += 1
        sizes = [size for room, part in zip(free, parts, strict=True) for size in _cut(random, room, part)]
        sizes[0] += random.random() < 0.4
    else:
        sizes = _cut(random, sum(free) * random.randint(85, 100) // 100, 8)
    random.shuffle(sizes)
    room = [*free, *(random.randint(0, small) for _ in range(64 - number))]
    random.shuffle(room)
    return large(sizes, room)


def mixed_hosts(random: Random) -> Instance:
    """Pods with GPUs and pods without, 8 sets of two shapes that must share the unequal hosts of 2 to 7 racks."""
    number, with_gpu = random.randint(2, 7), random.randint(1, 7)
    racks = [[(random.choice([0, 4, 8]), random.randint(2, 24)) for _ in range(16)] for _ in range(number)]
    rest = [[(0, random.randint(0, 1)) for _ in range(16)] for _ in range(64 - number)]
    gpu, plain = random.choice([(1, 2), (2, 3), (4, 5)]), random.choice([(0, 1), (0, 2), (0, 3)])
    large_pods = [sum(min(gpus, cpus // 2) for gpus, cpus in hosts) for hosts in racks]
    left = [sum(cpus for _, cpus in hosts) - 2 * pods for hosts, pods in zip(racks, large_pods, strict=True)]
    sets = [(max(1, size // gpu[0]), gpu) for size in _sizes(random, large_pods, with_gpu)]
    sets += [(max(1, size // plain[1]), plain) for size in _sizes(random, left, 8 - with_gpu)]
    random.shuffle(sets)
    return Instance(tuple(map(tuple, [*racks, *rest])), tuple(sets))


def times(each: int, repeat: int = 3) -> None:
    """Milliseconds of the quickest of some equal questions: single cases, then many at random."""
    print("8 pod sets over 64 racks of 16 hosts, ms")
    for title, instance in CASES.items():
        best, result = timed(instance, repeat)
        proofs = sorted({(one.proof.value, one.expanded) for one in result.certificates.values()})
        wrong = "" if result.fits == instance.feasible() else "  WRONG"
        print(f"{title:<42} {best:8.1f}  {proofs}{wrong}{'  OVER THE LIMIT' if best > LIMIT_MS else ''}")
    for make in (full_racks, mixed_hosts):
        rows = [timed(make(Random(f"{make.__name__} {seed}")), repeat) for seed in range(each)]
        proved = Counter(next((one.proof.value for one in r.certificates.values()), "undecided") for _, r in rows)
        all_ms = sorted(ms for ms, _ in rows)
        figures = ", ".join(f"{word} {all_ms[int(share * (each - 1))]:.1f}" for word, share in SHARES.items())
        over = sum(ms > LIMIT_MS for ms in all_ms)
        print(f"{make.__name__:<12} {each} at random: {figures}; {over} over the limit; {dict(proved)}")


SHARES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "worst": 1.0}


def timed(instance: Instance, repeat: int) -> tuple[float, PlacementResult]:
    """The quickest of some questions to one ledger."""
    ledger, best = instance.ledger(Profile.EXACT), float("inf")
    result = ledger.placement.place(instance.requests())
    for _ in range(repeat):
        start = process_time()
        result = ledger.placement.place(instance.requests())
        best = min(best, process_time() - start)
    return best * 1000, result


def run(each: int = 300) -> None:
    """All of it; `each`: instances of a row."""
    misses(each)
    times(each)
