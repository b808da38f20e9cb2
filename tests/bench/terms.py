"""What terms of pods cost one placement on the live ledger, beside the same request without them: anti-affinity, spread.

    python -m tests.bench terms [--nodes 15000] [--repeat 15]

The cluster is that of the placement bench, 70 % full, with one pod from elsewhere on every node. The later question is the
one that a cycle asks; the first one counts the pods that its term selects. Limit: 3 ms a later question at 15,000 nodes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    BoundPod,
    ObjectRemoved,
    PlacementRequest,
    PodFacts,
    PodTerm,
    RemovedKind,
    SpreadTerm,
    Workload,
)
from api.pod.pod_terms import SelectorRequirement
from tests.bench.placement import BLOCK, RACK, cluster, request, timed

LIMIT_MS = 3.0


def term(key: str, app: str) -> PodTerm:
    """Pods of one label in one namespace."""
    return PodTerm(key, (SelectorRequirement("app", "In", (app,)),), ("ns",))


def asked(*terms: PodTerm, app: str = "train", pods: int = 64, level: str = BLOCK) -> PlacementRequest:
    """A gang with these terms."""
    facts = PodFacts("ns", (("app", app),), terms)
    return replace(request("gpu", "required", level, pods), facts=facts)


def full(nodes: int, *terms: PodTerm) -> Ledger:
    """The cluster with one pod from elsewhere on each node, with these terms."""
    ledger = cluster(nodes, "gpu", "fill70")
    for index in range(nodes):
        labels = (("app", "daemon" if index % 2 else "log"), ("pod", f"p{index}"))
        ledger.apply(BoundPod(f"ns/p{index}", f"node-{index:06d}", {}, facts=PodFacts("ns", labels, terms)))
    return ledger


def rows(nodes: int, repeat: int) -> Iterator[tuple[str, float, float]]:
    """Name, milliseconds of the first question, of a later one."""
    plain = full(nodes)
    yield "no pod has a term", *_times(plain, asked(), repeat)
    for name, some in {
        "it keeps off the hosts of 7,500 pods": (term(HOSTNAME_LABEL, "log"),),
        "and off the racks of 1 more": (term(HOSTNAME_LABEL, "log"), term(RACK, "train")),
        "its pods keep each other off their racks": (term(RACK, "train"),),
    }.items():
        yield name, *_times(plain, asked(*some, pods=8), repeat)
    for name, spread in {
        "its pods lie evenly over the racks": (RACK,),
        "its pods lie evenly over the hosts": (HOSTNAME_LABEL,),
        "and over both": (RACK, HOSTNAME_LABEL),
    }.items():
        even = tuple(SpreadTerm(term(key, "train")) for key in spread)
        facts = PodFacts("ns", (("app", "train"),), even=even)
        yield name, *_times(plain, replace(asked(), facts=facts), repeat)
    yield (
        "each pod of 15,000 keeps another app away",
        *_times(full(nodes, term(HOSTNAME_LABEL, "web")), asked(), repeat),
    )
    yield (
        "each pod of 15,000 keeps it off its host",
        *_times(full(nodes, term(HOSTNAME_LABEL, "train")), asked(), repeat),
    )
    own = full(nodes)
    for index in range(nodes):
        facts = PodFacts("ns", (("app", f"job{index}"),), (term(HOSTNAME_LABEL, f"job{index}"),))
        own.apply(BoundPod(f"ns/q{index}", f"node-{index:06d}", {}, facts=facts))
    yield (
        "15,000 pods, each with a term of its own",
        *_times(own, asked(term(HOSTNAME_LABEL, "job7"), app="job7"), repeat),
    )


def _times(ledger: Ledger, placement_request: PlacementRequest, repeat: int) -> tuple[float, float]:
    with ledger.trial():
        first = timed(lambda: ledger.placement.place([placement_request]), 1)
    if placement_request.facts is not None and placement_request.facts.has_terms:
        ledger.capacity.placed.watch()
    ledger.placement.place([placement_request])
    return first, timed(lambda: ledger.placement.place([placement_request]), repeat)


def first_count(nodes: int) -> tuple[float, float, float]:
    """Milliseconds: the whole count of all pods for a first term, as the controller makes it; its longest step; with the first
    question after it.
    """
    ledger = full(nodes)
    left: list[Iterator[None]] = []
    ledger.count_in_steps(left.append)
    one = asked(term(HOSTNAME_LABEL, "log"))
    facts = one.pod_set.facts or one.facts
    assert facts is not None
    waiting = Workload("ns/w", "w", "ns/lq", "cq", (replace(one.pod_set, facts=facts),))
    gc.collect()
    gc.freeze()  # a collection of the bench's own garbage is no step of the count
    steps = [timed(lambda: ledger.watch_terms(waiting), 1)]
    before = perf_counter()
    for _ in left[0]:
        now = perf_counter()
        steps.append(1000 * (now - before))
        before = now
    steps.append(1000 * (perf_counter() - before))
    return sum(steps), max(steps), timed(lambda: ledger.placement.place([one]), 1)


def changes(nodes: int, repeat: int) -> Iterator[tuple[str, float]]:
    """Name and milliseconds of one pod that comes and goes."""
    for name, ledger in (("no pod has a term", full(nodes)), ("each pod has one", full(nodes, term(RACK, "train")))):
        pod = BoundPod("ns/new", "node-000007", {}, facts=PodFacts("ns", (("app", "x"),)))

        def come_and_go(ledger: Ledger = ledger, pod: BoundPod = pod) -> None:
            ledger.apply(pod)
            ledger.apply(ObjectRemoved(RemovedKind.POD, pod.key))

        yield name, timed(come_and_go, repeat * 10)


def run(nodes: int = 15_000, repeat: int = 15) -> bool:
    """Print the table; whether the limit holds."""
    worst = 0.0
    for name, first, later in rows(nodes, repeat):
        print(f"{name:45} first {first:8.2f} ms   later {later:6.2f} ms")
        worst = max(worst, later)
    whole, longest, question = first_count(nodes)
    print(
        f"first count of all pods {whole:8.2f} ms   longest step {longest:6.2f} ms   first question {question:6.2f} ms"
    )
    for name, took in changes(nodes, repeat):
        print(f"a pod comes and goes, {name:30} {took:6.3f} ms")
    return worst <= LIMIT_MS


if __name__ == "__main__":
    raise SystemExit(0 if run() else 1)
