"""The placement vectors of quirks A.3, in Domains counting with Kueue's gates, and with Profile Compatible in ours."""

from __future__ import annotations

import pytest

from admission.engine.model import Counting, PlacementOptions, Profile
from tests.admission.engine.topology.vectors import BLOCK, RACK, ledger, request, shown

KUEUE = PlacementOptions(counting=Counting.DOMAINS, profile=Profile.COMPATIBLE, leader_constraints=False)
OURS = PlacementOptions(profile=Profile.COMPATIBLE)
NO_MIXED = PlacementOptions(counting=Counting.DOMAINS, profile=Profile.COMPATIBLE, least_free_for_unconstrained=False)
BALANCED = PlacementOptions(counting=Counting.DOMAINS, profile=Profile.COMPATIBLE, balanced=True)
ONLY = 'topology "default" allows to fit only {} out of {} {}(s)'.format
LAYERED = (
    'topology "default" doesn\'t allow to fit; 1/2 slice(s) fit on level example.com/rack; '
    "6/6 slice(s) fit on level kubernetes.io/hostname"
)

PLAIN = [
    ("required host", 1, "h2:1"),
    ("required host", 3, "h1:3"),
    ("required host", 5, "h10:5"),
    ("required host", 6, ONLY(5, 6, "pod")),
    ("required rack", 2, "h3:2"),
    ("required rack", 6, "h1:3 h2:1 h3:2"),
    ("required rack", 7, "h4:4 h5:3"),
    ("required rack", 9, ONLY(8, 9, "pod")),
    ("required block", 9, "h6:2 h7:2 h10:5"),
    ("required block", 13, "h1:3 h3:2 h4:4 h5:4"),
    ("required block", 15, ONLY(14, 15, "pod")),
    ("preferred host", 6, "h1:3 h2:1 h3:2"),
    ("preferred host", 9, "h6:2 h7:2 h10:5"),
    ("preferred rack", 9, "h6:2 h7:2 h10:5"),
    ("preferred rack", 13, "h1:3 h3:2 h4:4 h5:4"),
    ("preferred rack", 20, "h1:3 h2:1 h3:2 h4:4 h5:4 h6:2 h7:2 h8:2"),
    ("preferred block", 27, ONLY(26, 27, "pod")),
    ("preferred auto", 6, "h1:3 h2:1 h3:2"),
    ("unconstrained", 1, "h2:1"),
    ("unconstrained", 5, "h10:5"),
    ("unconstrained", 7, "h2:1 h3:2 h6:2 h7:1 h9:1"),
    ("unconstrained", 20, "h1:3 h2:1 h3:2 h4:4 h5:3 h6:2 h7:2 h8:2 h9:1"),
    ("implied", 4, "h4:4"),
]
SLICED = [
    ("required block; slice host*2", 6, "h6:2 h7:2 h8:2"),
    ("required block; slice host*2", 8, "h6:2 h7:2 h10:4"),
    ("required block; slice rack*4", 8, "h6:2 h7:2 h10:3 h9:1"),
    ("required block; slice rack*4", 12, "h1:1 h2:1 h3:2 h4:4 h5:4"),
    ("required block; slice rack*4", 16, ONLY(3, 4, "slice")),
    ("preferred block; slice rack*6", 18, "h1:3 h2:1 h3:2 h6:2 h7:2 h8:2 h10:5 h9:1"),
    ("preferred rack; slice host*2", 10, "h6:2 h7:2 h8:2 h10:4"),
    ("slice only rack*3", 9, "h6:2 h7:2 h8:2 h10:2 h9:1"),
    ("slice only host*2", 8, "h6:2 h7:2 h8:2 h10:2"),
    ("required block; layers rack*4, host*2", 8, "h6:2 h7:2 h10:4"),
    ("required block; layers rack*4, host*2", 12, "h1:2 h3:2 h4:4 h5:4"),
    ("required block; layers rack*6, host*2", 12, LAYERED),
]
INVALID = [
    ("required nowhere", 1, "no requested topology level: nowhere"),
    ("slice only rack*0", 1, "slice topology requested, but slice size not provided"),
    ("required block; slice nowhere*2", 2, "no requested topology level for slices: nowhere"),
    ("required rack; slice block*2", 2, f"podset slice topology {BLOCK} is above the podset topology {RACK}"),
    (
        "required block; layers rack*4, nowhere*2",
        4,
        "no requested topology level for additional slice layer: nowhere",
    ),
    (
        "required block; layers rack*4, rack*2",
        4,
        f"additional slice layer topology {RACK} must be at a lower level than {RACK}",
    ),
    (
        "required block; layers rack*4, host*3",
        4,
        "additional slice layer size 3 must evenly divide parent layer size 4",
    ),
]
UNMIXED = [
    ("unconstrained", 1, "h2:1"),
    ("unconstrained", 5, "h10:5"),
    ("unconstrained", 7, "h3:2 h10:5"),
]
EVEN = [
    ("preferred rack", 8, "h4:4 h5:4"),
    ("preferred rack", 10, "h1:3 h4:4 h5:3"),
    ("preferred rack", 12, "h1:2 h3:2 h4:4 h5:4"),
    ("preferred block", 16, "h1:3 h2:1 h3:2 h6:2 h7:2 h8:1 h10:5"),
    ("preferred host", 6, "h4:3 h5:3"),
    ("preferred rack; slice host*2", 8, "h4:4 h5:4"),
]
GROUPS = [
    ("required rack", 1, 5, "h1:1", "h1:2 h2:1 h3:2"),
    ("required rack", 2, 7, ONLY(8, 7, "pod"), ONLY(8, 7, "pod")),
    ("required host", 1, 4, "h10:1", "h10:4"),
    ("required block", 2, 12, "h4:1", "h1:3 h2:1 h3:2 h4:2 h5:4"),
    ("preferred rack", 1, 8, "h10:1", "h6:2 h7:2 h10:4"),
    ("required rack", 1, 8, ONLY(8, 8, "pod"), ONLY(8, 8, "pod")),
]


def _ids(row: tuple[object, ...]) -> str:
    return " ".join(str(cell) for cell in row[:3])


@pytest.mark.parametrize(
    ("text", "count", "wanted"), [pytest.param(*row, id=_ids(row)) for row in PLAIN + SLICED + INVALID]
)
@pytest.mark.parametrize("options", [KUEUE, OURS], ids=["kueue", "ours"])
def test_one_pod_set(text: str, count: int, wanted: str, options: PlacementOptions) -> None:
    result = ledger(options).placement.place([request("main", text, count)])
    assert shown(result, "main") == wanted


@pytest.mark.parametrize(("text", "count", "wanted"), [pytest.param(*row, id=_ids(row)) for row in UNMIXED])
def test_without_the_mixed_profile(text: str, count: int, wanted: str) -> None:
    assert shown(ledger(NO_MIXED).placement.place([request("main", text, count)]), "main") == wanted


@pytest.mark.parametrize(("text", "count", "wanted"), [pytest.param(*row, id=_ids(row)) for row in EVEN])
def test_balanced(text: str, count: int, wanted: str) -> None:
    assert shown(ledger(BALANCED).placement.place([request("main", text, count)]), "main") == wanted


@pytest.mark.parametrize(
    ("text", "cpu", "workers", "leader", "wanted"), [pytest.param(*row, id=_ids(row)) for row in GROUPS]
)
def test_leader_and_workers(text: str, cpu: int, workers: int, leader: str, wanted: str) -> None:
    members = [request("leader", text, 1, {"cpu": 1000 * cpu}, "g"), request("workers", text, workers, group="g")]
    result = ledger(KUEUE).placement.place(members)
    assert (shown(result, "leader"), shown(result, "workers")) == (leader, wanted)


def test_several_pod_sets_see_what_the_ones_before_took() -> None:
    result = ledger().placement.place([request("a", "required rack", 6), request("b", "required rack", 6)])
    assert (shown(result, "a"), shown(result, "b")) == ("h1:3 h2:1 h3:2", "h6:2 h7:2 h8:2")


def test_the_first_pod_set_that_fails_ends_it() -> None:
    requested = [request("a", "required rack", 8), request("b", "required rack", 8), request("c", "required rack", 1)]
    result = ledger().placement.place(requested)
    reason = ONLY(6, 8, "pod") + '. Total nodes: 10; excluded: resource "cpu": 2'
    assert [shown(result, name) for name in "abc"] == ["h4:4 h5:4", reason, "-"]


@pytest.mark.parametrize(
    ("text", "count", "wanted"),
    [
        ("required rack", 6, "b1/r1:6"),
        ("preferred rack", 9, "b2/r1:6 b2/r2:3"),
        ("required block", 9, "b2/r1:6 b2/r2:3"),
        ("unconstrained", 7, "b1/r2:7"),
    ],
    ids=str,
)
@pytest.mark.parametrize("options", [KUEUE, OURS], ids=["kueue", "ours"])
def test_lowest_level_wider_than_a_host(text: str, count: int, wanted: str, options: PlacementOptions) -> None:
    result = ledger(options, levels=(BLOCK, RACK)).placement.place([request("main", text, count)])
    assert shown(result, "main") == wanted
