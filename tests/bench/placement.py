"""Placement on the live ledger beside Kueue's figures: the clusters and requests of `peer-placement.json`.

    python -m tests.bench.placement [--sizes 640,15000] [--repeat 15] [--json FILE]

Every assignment of Profile Compatible must have Kueue's hash; beside it stands the time of Profile Exact, how many times
Compatible's that is, and where several domains were needed what is proved. A decision is taken on the ledger as it stands,
nothing is rebuilt for it; Kueue pays its snapshot (reused where no node changed) and the find on it. Prints minimum
milliseconds and the ratio, and what one admission, one node and one foreign pod cost the ledger. Limits: 2 ms a decision at
15,000 nodes, 10 ms at 100,000.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from admission.engine.decision import PlacementResult
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    DomainCount,
    Flavor,
    Node,
    ObjectRemoved,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    Profile,
    RemovedKind,
    TopologyRequest,
    Workload,
)

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
LEVELS = (BLOCK, RACK, HOSTNAME_LABEL)
GIB = 1 << 30
SHAPES = {"gpu": {"cpu": 12_000, "memory": 32 * GIB, "nvidia.com/gpu": 1}, "cpu": {"cpu": 1_000, "memory": 2 * GIB}}
PODS_PER_NODE = {"gpu": 8, "cpu": 96}
LIMITS = {15_000: 2.0, 100_000: 10.0}
MASK = 2**64 - 1
PROJECT = Path(__file__).resolve().parents[2]
FIGURES = Path(os.environ.get("STOWAGE_KUEUE_BENCH") or PROJECT.parent / "shared" / "bench" / "peer-placement.json")


def node(index: int) -> Node:
    """Node number `index` of the generator."""
    name, rack = f"node-{index:06d}", index // 16
    labels = {HOSTNAME_LABEL: name, RACK: f"rack-{rack:05d}", BLOCK: f"block-{rack // 8:05d}", "tas-node": "true"}
    return Node(name, labels, {"cpu": 96_000, "memory": 384 * GIB, "nvidia.com/gpu": 8, "pods": 110})


def quarters(index: int) -> int:
    """How many quarters of the node are in use in the 70 % fill."""
    x = (index + 1) * 0x9E3779B97F4A7C15 & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    r = (x ^ x >> 31) % 10
    return 4 if r < 5 else 2 if r < 8 else 1


def workload(key: str, shape: str, hosts: list[tuple[str, int]]) -> tuple[Workload, Admission]:
    """A workload of this shape, admitted on these hosts."""
    count = sum(pods for _, pods in hosts)
    assignment = Assignment((HOSTNAME_LABEL,), tuple(DomainCount((host,), pods) for host, pods in hosts))
    got = PodSetAdmission("main", dict.fromkeys(SHAPES[shape], "tas"), {}, count, assignment)
    return Workload(key, key, "ns/lq", "cq", (PodSet("main", count, SHAPES[shape]),)), Admission("cq", (got,))


def cluster(nodes: int, shape: str, fill: str) -> Ledger:
    """A ledger with the generator's cluster."""
    ledger = Ledger()
    ledger.apply(Flavor("tas", {"tas-node": "true"}, topology="default", levels=LEVELS))
    for index in range(nodes):
        ledger.apply(node(index))
    if fill != "empty":
        for rack in range(-(-nodes // 16)):
            hosts = [
                (f"node-{index:06d}", PODS_PER_NODE[shape] * quarters(index) // 4)
                for index in range(16 * rack, min(nodes, 16 * rack + 16))
            ]
            ledger.charge(*workload(f"ns/fill-{rack:05d}", shape, hosts))
    return ledger


def request(shape: str, mode: str, level: str, pods: int, profile: Profile = Profile.COMPATIBLE) -> PlacementRequest:
    """One pod set `main`."""
    topologies = {
        "required": TopologyRequest(required=level),
        "preferred": TopologyRequest(preferred=level),
        "unconstrained": TopologyRequest(unconstrained=True),
    }
    return PlacementRequest(
        PodSet("main", pods, SHAPES[shape], topology=topologies[mode]), "tas", pods, profile=profile
    )


def digest(assignment: Assignment) -> str:
    """The hash of the figures file."""
    lines = "".join(f"{domain.values[-1]}:{domain.count}\n" for domain in assignment.domains)
    return hashlib.sha256(lines.encode()).hexdigest()


def timed(act: Callable[[], object], repeat: int) -> float:
    """Milliseconds of the quickest run."""
    best = float("inf")
    for _ in range(repeat):
        start = perf_counter()
        act()
        best = min(best, perf_counter() - start)
    return best * 1000


def agrees(result: PlacementResult, kueue: dict[str, Any]) -> bool:
    """Whether the result is Kueue's: the same domains in the same order, or the same reason."""
    if not kueue["fits"]:
        return "main" in result.failures and result.failures["main"].message == kueue["reason"]
    return "main" in result.assignments and digest(result.assignments["main"]) == kueue["assignment_sha256"]


def finds(figures: dict[str, Any], sizes: list[int], repeat: int) -> Iterator[dict[str, Any]]:
    """One row a request."""
    snapshots = {(row["nodes"], row["fill"], row["shape"]): _snapshot_ms(row) for row in figures["snapshot"]}
    clusters = sorted({(row["nodes"], row["fill"], row["shape"]) for row in figures["find"] if row["nodes"] in sizes})
    for nodes, fill, shape in clusters:
        ledger = cluster(nodes, shape, fill)
        for kueue in figures["find"]:
            if (kueue["nodes"], kueue["fill"], kueue["shape"]) == (nodes, fill, shape):
                what = (shape, kueue["mode"], kueue["level"], kueue["pods"])
                asked, exact = [request(*what)], [request(*what, Profile.EXACT)]
                result, certificate = ledger.placement.place(asked), ledger.placement.place(exact).certificates["main"]
                ours, proved = (
                    timed(lambda some=some, ledger=ledger: ledger.placement.place(some), repeat)  # type: ignore[misc]  # mypy: defaults of lambdas
                    for some in (asked, exact)
                )
                theirs = snapshots[nodes, fill, shape] + kueue["find_first_on_fresh_snapshot"]["min_ms"]
                yield {
                    **{key: kueue[key] for key in ("nodes", "fill", "shape", "pods", "mode", "level", "fits")},
                    "ours_ms": round(ours, 3),
                    "exact_ms": round(proved, 3),
                    "proof": str(certificate.proof) if certificate.cost else "",
                    "kueue_ms": round(theirs, 3),
                    "equal": agrees(result, kueue),
                }
        yield from updates(ledger, nodes, fill, shape, repeat)


def _snapshot_ms(row: dict[str, Any]) -> float:
    warm: float = row["snapshot_warm"]["min_ms"]
    return warm


def updates(ledger: Ledger, nodes: int, fill: str, shape: str, repeat: int) -> Iterator[dict[str, Any]]:
    """What one change costs the ledger: an admission of 16 hosts and its release, a node, a foreign pod."""
    some = nodes // 2
    hosts = [(f"node-{some + index:06d}", 1) for index in range(16)]
    taken, admission = workload("ns/new", shape, hosts)
    pod = BoundPod("ns/daemon", f"node-{some:06d}", {"cpu": 100})
    drained = replace(node(some), usable=False)
    acts: dict[str, list[Callable[[], object]]] = {
        "admission and release": [lambda: ledger.charge(taken, admission), lambda: ledger.release("ns/new")],
        "foreign pod and its end": [
            lambda: ledger.apply(pod),
            lambda: ledger.apply(ObjectRemoved(RemovedKind.POD, pod.key)),
        ],
        "node drained and back": [lambda: ledger.apply(drained), lambda: ledger.apply(node(some))],
    }
    for name, steps in acts.items():
        ms = timed(lambda steps=steps: [step() for step in steps], repeat)  # type: ignore[misc]  # mypy: defaults of lambdas
        yield {"nodes": nodes, "fill": fill, "shape": shape, "update": name, "ours_ms": round(ms, 4), "equal": True}


def show(row: dict[str, Any]) -> None:
    """One line."""
    head = f"{row['nodes']:>7} {row['fill']:>5} {row['shape']}"
    if "update" in row:
        print(f"{head}  {row['update']:<34} {row['ours_ms']:9.4f} ms")
        return
    what = f"{row['pods']:>5} {row['mode']} {row['level'].rpartition('-')[2]}"
    ratio = row["kueue_ms"] / row["ours_ms"]
    limit = LIMITS.get(row["nodes"])
    slow = "  OVER THE LIMIT" if limit is not None and row["ours_ms"] > limit else ""
    wrong = "" if row["equal"] else "  DIFFERS FROM KUEUE"
    mark = " " if row["fits"] else "x"
    exact = f"exact {row['exact_ms']:8.3f} ms x{row['exact_ms'] / row['ours_ms']:5.1f} {row['proof']:<8}"
    figures = f"{row['ours_ms']:9.3f} ms  {exact}  Kueue {row['kueue_ms']:9.3f}  x{ratio:7.1f}"
    print(f"{head}  {what:<26} {mark} {figures}{slow}{wrong}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and fail where an assignment differs. `arguments`: the command line's unless given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="640,5000,15000,50000,100000")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if not FIGURES.exists():
        print(f"Kueue's figures are not there: {FIGURES.name} is expected in ../shared/bench")
        return 0
    figures = json.loads(FIGURES.read_text())
    rows = []
    for row in finds(figures, [int(size) for size in given.sizes.split(",")], given.repeat):
        show(row)
        rows.append(row)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    differing = sum(not row["equal"] for row in rows)
    print(f"{len(rows)} rows, {differing} differ from Kueue")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
