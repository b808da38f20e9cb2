"""The fixture of the placement vectors (quirks A.3) and small helpers to ask and to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admission.engine.decision import PlacementResult
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Amounts,
    Assignment,
    Counting,
    Flavor,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    Profile,
    SliceLayer,
    TopologyRequest,
)

BLOCK, RACK = "example.com/block", "example.com/rack"
LEVELS = (BLOCK, RACK, HOSTNAME_LABEL)
SHORT = {"block": BLOCK, "rack": RACK, "host": HOSTNAME_LABEL}
CPUS = {
    ("b1", "r1"): {"h1": 3, "h2": 1, "h3": 2},
    ("b1", "r2"): {"h4": 4, "h5": 4},
    ("b2", "r1"): {"h6": 2, "h7": 2, "h8": 2},
    ("b2", "r2"): {"h9": 1, "h10": 5},
}
FLAVOR = "tas"
ONE_CPU = {"cpu": 1000}


def node(name: str, labels: Mapping[str, str], cpu: int, **more: int) -> Node:
    """A ready node of whole CPUs and 110 pods."""
    return Node(name, {HOSTNAME_LABEL: name, **labels}, {"cpu": 1000 * cpu, "pods": 110, **more})


def nodes() -> list[Node]:
    """The fixture's nodes."""
    return [
        node(host, {BLOCK: block, RACK: rack}, cpu)
        for (block, rack), hosts in CPUS.items()
        for host, cpu in hosts.items()
    ]


def ledger(
    options: PlacementOptions | None = None,
    some: Sequence[Node] | None = None,
    levels: tuple[str, ...] = LEVELS,
) -> Ledger:
    """A ledger with one flavor over these nodes (the fixture's, if none are given)."""
    made = Ledger(options or PlacementOptions(counting=Counting.DOMAINS, profile=Profile.COMPATIBLE))
    made.apply(Flavor(FLAVOR, topology="default", levels=levels))
    for one in nodes() if some is None else some:
        made.apply(one)
    return made


def topology(text: str, group: str | None = None) -> TopologyRequest | None:
    """`required rack; slice host*2`, `slice only rack*3`, `required block; layers rack*4, host*2`, `implied`."""
    main, _, rest = text.partition(";")
    word, _, level = main.strip().partition(" ")
    if word == "implied":
        return None
    slices = _slices(rest) if rest else ()
    match word:
        case "required":
            return TopologyRequest(required=SHORT.get(level, level), slices=slices, group=group)
        case "preferred":
            return TopologyRequest(preferred=SHORT.get(level, level), slices=slices, group=group)
        case "unconstrained":
            return TopologyRequest(unconstrained=True, slices=slices, group=group)
        case _:
            return TopologyRequest(slices=_slices(main), group=group)


def _slices(text: str) -> tuple[SliceLayer, ...]:
    layers = (part.split()[-1].split("*") for part in text.split(","))
    return tuple(SliceLayer(SHORT.get(level, level), int(size)) for level, size in layers)


def request(
    name: str, text: str, count: int, requests: Amounts = ONE_CPU, group: str | None = None
) -> PlacementRequest:
    """A pod set of the fixture's flavor."""
    pod_set = PodSet(name, count, requests, topology=topology(text, group))
    return PlacementRequest(pod_set, FLAVOR, count, implied=text == "implied")


def shown(result: PlacementResult, name: str) -> str:
    """`h1:3 h2:1`, or the failure's message, or `-`."""
    if name in result.failures:
        return result.failures[name].message
    return domains(result.assignments[name]) if name in result.assignments else "-"


def domains(assignment: Assignment) -> str:
    """The domains in their order."""
    return " ".join(f"{'/'.join(domain.values)}:{domain.count}" for domain in assignment.domains)
