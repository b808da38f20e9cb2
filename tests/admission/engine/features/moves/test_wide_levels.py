"""Plans of moves where the lowest level is a rack of several hosts, so that a place names no host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from admission.engine.features.moves.commit import commit
from admission.engine.features.moves.plan import plan
from admission.engine.features.moves.plans import MovePlan
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    Assignment,
    DomainCount,
    PodSet,
    PodSetAdmission,
    Workload,
)
from tests.admission.engine.builders import CPU, RACK, host, racks
from tests.admission.engine.features.moves.clusters import MOVABLE, NOW, ONE_RACK, gang, own

HOSTS, PER_HOST = 4, 4


def cluster(used: dict[str, tuple[str, int]], count: int) -> Ledger:
    """Racks r0, r1, ... of 16 cpu; `used` has rack and pods of 1 cpu of each movable workload."""
    ledger = Ledger()
    ledger.apply(replace(racks(), levels=(RACK,)))
    for index in range(HOSTS * count):
        ledger.apply(host(f"h{index}", f"r{index // HOSTS}", PER_HOST))
    ledger.apply(own())
    for key, (rack, pods) in used.items():
        assignment = Assignment((RACK,), (DomainCount((rack,), pods),))
        got = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": pods * CPU}, pods, assignment)
        pod_set = PodSet("main", pods, {"cpu": CPU}, topology=ONE_RACK)
        running = Workload(key, key, "ns/lq", "q", (pod_set,), reserved=NOW - 900, admitted=NOW - 900, restart=MOVABLE)
        ledger.apply(replace(running, admission=Admission("q", (got,))))
    return ledger


def racks_of(admissions: Iterable[Admission | None]) -> Counter[str]:
    """Pods by rack."""
    sets = (got for one in admissions if one is not None for got in one.pod_sets)
    domains = (domain for got in sets if got.assignment is not None for domain in got.assignment.domains)
    found = Counter[str]()
    for domain in domains:
        found[domain.values[-1]] += domain.count
    return found


def test_the_mover_leaves_the_rack_that_the_gang_takes() -> None:
    found = plan(cluster({"four": ("r0", 4), "six": ("r1", 6)}, 2), gang(16, 1), NOW)
    assert isinstance(found, MovePlan)
    assert [move.workload for move in found.moves] == ["four"]
    assert racks_of(move.after for move in found.moves) == {"r1": 4}
    assert racks_of([found.admission]) == {"r0": 16}


def test_plans_can_be_made() -> None:
    made, bad = 0, {}
    for seed in range(300):
        draw = Random(seed)
        count, free, used = draw.choice((2, 3)), Counter[str](), dict[str, tuple[str, int]]()
        free.update({f"r{index}": HOSTS * PER_HOST for index in range(count)})
        for index in range(draw.randint(2, 7)):
            rack, pods = draw.choice(sorted(free)), draw.randint(1, 6)
            if pods <= free[rack]:
                used[f"w{index}"] = rack, pods
                free[rack] -= pods
        ledger, waiting = cluster(used, count), gang(draw.randint(8, 16), 1)
        found = plan(ledger, waiting, NOW)
        if not isinstance(found, MovePlan) or not found.moves:
            continue
        made += 1
        moved = {move.workload for move in found.moves}
        stays = Counter[str]()
        for key, (rack, pods) in used.items():
            stays[rack] += 0 if key in moved else pods
        stays += racks_of([found.admission, *(move.after for move in found.moves)])
        refused = commit(ledger, waiting, found, NOW, {}, bound=False)
        if max(stays.values()) > HOSTS * PER_HOST or refused is not None:
            bad[seed] = (used, stays, refused)
    assert made >= 50
    assert bad == {}
