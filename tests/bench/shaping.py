"""What one decision under placement constraints costs: racks of 16 GPU nodes, 8 racks a block, empty and mostly full.

    python -m tests.bench shaping [--sizes 5000,15000] [--repeat 5]

Prints milliseconds of CPU of the cheapest run, what was proved, states looked at. Aim: 50 ms at 5,000 nodes for 16 to 512 pods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    LevelConstraint,
    PlacementRequest,
    PodSet,
    Spreading,
    TopologyRequest,
)
from tests.bench.placement import BLOCK, RACK, SHAPES, cluster

SPREAD = Spreading.SPREAD
WORDS: dict[str, tuple[LevelConstraint, ...]] = {
    "host spread": (LevelConstraint(HOSTNAME_LABEL, SPREAD),),
    "rack in 4 parts": (LevelConstraint(RACK, SPREAD, partitions=4),),
    "rack in 4 parts, hard": (LevelConstraint(RACK, SPREAD, partitions=4, hard=True),),
    "host 2 to 4": (LevelConstraint(HOSTNAME_LABEL, minimum=2, maximum=4),),
    "host by 4, hard": (LevelConstraint(HOSTNAME_LABEL, factor=4, hard=True),),
    "rack 8 to 32, host by 2": (
        LevelConstraint(RACK, SPREAD, minimum=8, maximum=32),
        LevelConstraint(HOSTNAME_LABEL, factor=2),
    ),
    "block spread, rack pack, host spread, hard": (
        LevelConstraint(BLOCK, SPREAD, hard=True),
        LevelConstraint(RACK),
        LevelConstraint(HOSTNAME_LABEL, SPREAD, hard=True),
    ),
}
BOUNDS = {
    "unconstrained": TopologyRequest(unconstrained=True),
    "required block": TopologyRequest(required=BLOCK),
    "preferred rack": TopologyRequest(preferred=RACK),
}
PODS = (16, 64, 512)


def request(bound: str, words: str, pods: int) -> PlacementRequest:
    """One pod set `main`, a GPU a pod."""
    topology = replace(BOUNDS[bound], constraints=WORDS[words])
    return PlacementRequest(PodSet("main", pods, SHAPES["gpu"], topology=topology), "tas", pods)


def cpu_ms(act: Callable[[], object], repeat: int) -> float:
    """Milliseconds of CPU of the cheapest run: a decision waits for nothing, and so a busy machine falsifies less."""
    best = float("inf")
    for _ in range(repeat):
        start = process_time()
        act()
        best = min(best, process_time() - start)
    return best * 1000


def line(ledger: Ledger, asked: PlacementRequest, repeat: int) -> str:
    """Time, proof and states of one request."""
    result = ledger.placement.place([asked])
    certificate = result.certificates.get("main")
    ms = cpu_ms(lambda: ledger.placement.place([asked]), repeat)
    said = "-" if certificate is None else f"{certificate.proof:<10} {certificate.expanded:>6} states"
    return f"{ms:9.2f} ms  {said}"


def run(sizes: str = "5000,15000", repeat: int = 5) -> None:
    """Print the table."""
    for nodes in map(int, sizes.split(",")):
        for fill in ("empty", "70%"):
            ledger = cluster(nodes, "gpu", fill)
            for bound in BOUNDS:
                for words in WORDS:
                    for pods in PODS:
                        head = f"{nodes:>6} {fill:>5} {pods:>4} {bound:<14} {words:<43}"
                        print(head, line(ledger, request(bound, words, pods), repeat))
            print(f"{nodes:>6} {fill:>5} 10000 pods", line(ledger, request("unconstrained", "host 2 to 4", 10_000), 1))
