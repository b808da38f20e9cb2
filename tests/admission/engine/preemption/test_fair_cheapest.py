"""Fair sharing where placement needs the freed room in one domain: somebody allowed is found wherever there is a set that
makes room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Cohort, PreemptionPolicy, Profile, Quota
from admission.engine.preemption.candidates import PreemptionContext, find_for_fairness
from admission.engine.preemption.cost import Cost, cost_of
from admission.engine.preemption.fair import fair, fair_choice
from admission.engine.preemption.fair_cheapest import fair_cheapest
from admission.engine.preemption.preemptor import needed
from admission.engine.preemption.removal import PreemptionTarget, TrialRemoval
from admission.engine.quota.fairness import FairSharingRules, FairStrategy
from admission.engine.requests import placement_requests
from tests.admission.engine.builders import CPU
from tests.admission.engine.dump import dump
from tests.admission.engine.preemption.small_clusters import (
    NOW,
    RECLAIM,
    RunningWorkload,
    cluster,
    inquiry,
    own,
    victims,
)
from tests.budgets import quick

SHARING = FairSharingRules()


def borrowed(**since: float) -> dict[str, RunningWorkload]:
    """Two racks of two hosts; each host runs one of queue `b`, since so many seconds before now."""
    return {
        key: RunningWorkload({f"h{at}": 4}, since=NOW - ago, queue="b") for at, (key, ago) in enumerate(since.items())
    }


ACROSS = borrowed(left1=100, left2=400, right1=200, right2=500)
"""The two newest are in different racks."""


@pytest.mark.parametrize(
    ("runs", "quotas", "wanted"),
    [
        pytest.param(ACROSS, (8, 8), ["left1", "left2"], id="both of one rack, of which less work is lost"),
        pytest.param(
            {**ACROSS, "left2": replace(ACROSS["left2"], priority=3)},
            (8, 8),
            ["right1", "right2"],
            id="not the important one",
        ),
        pytest.param(borrowed(a1=1, a2=2, b1=3, b2=4), (8, 8), ["a1", "a2"], id="Kueue's choice where it makes room"),
        pytest.param(ACROSS, (8, 12), [], id="who has borrowed less keeps its own"),
        pytest.param(
            {**ACROSS, "right1": replace(ACROSS["right1"], evicted=True)},
            (8, 8),
            ["right1", "right2"],
            id="beside one who is leaving, one more",
        ),
        pytest.param(
            {**ACROSS, **{key: replace(ACROSS[key], evicted=True) for key in ("right1", "right2")}},
            (8, 8),
            ["right1", "right2"],
            id="those who are leaving, where that will do",
        ),
    ],
)
@pytest.mark.parametrize("fairly", [True, False], ids=["fair sharing", "reclaim"])
def test_a_gang_gets_its_own_quota_back_in_one_rack(
    runs: Mapping[str, RunningWorkload], quotas: tuple[int, int], wanted: Sequence[str], fairly: bool
) -> None:
    mine, theirs = quotas
    ledger = cluster(runs, own(mine, RECLAIM, cohort="all"), own(theirs, name="b", cohort="all"))
    assert sorted(victims(ledger, 2, 4, sharing=SHARING if fairly else None)) == wanted


def test_kueues_profile_waits_there() -> None:
    queues = own(8, RECLAIM, cohort="all"), own(8, name="b", cohort="all")
    assert victims(cluster(ACROSS, *queues, profile=Profile.COMPATIBLE), 2, 4, sharing=SHARING) == []


@pytest.mark.parametrize("policy", ["Never", "LowerPriority"])
def test_no_workload_is_evicted_against_the_policy(policy: str) -> None:
    queues = own(8, PreemptionPolicy(policy, "Never"), cohort="all"), own(8, name="b", cohort="all")
    assert victims(cluster(ACROSS, *queues), 2, 4, priority=0, sharing=SHARING) == []


def test_an_elastic_quota_takes_another_shape_where_its_order_leaves_none() -> None:
    elastic = replace(RECLAIM, keeps_nominal=True)
    ledger = cluster(ACROSS, own(8, elastic, cohort="all"), own(8, name="b", cohort="all"))
    assert sorted(victims(ledger, 2, 4)) == ["left1", "left2"]
    assert victims(ledger, 1, 4) == ["left1"], "the newest"


# ---- brute force


@dataclass(frozen=True)
class FairGang:
    """What a gang of queue `a` asks for in a cluster, and by which strategies."""

    ledger: Ledger
    context: PreemptionContext
    sharing: FairSharingRules

    def __repr__(self) -> str:
        """What one needs to see of an example that fails."""
        quota = self.ledger.quota
        runs = [
            (b.workload.key, q, b.workload.priority, b.workload.evicted)
            for q in "abc"
            for b in self.ledger.charged_to(q)
        ]
        queues = [(name, spec.cohort, spec.groups, spec.weight_milli) for name in "abc" if (spec := quota.spec(name))]
        return f"{self.context.workload.pod_sets}\n{self.context.policy}\n{self.sharing}\n{runs}\n{queues}"

    def fits_without(self, victims: Iterable[str]) -> bool:
        """Whether it fits, quota and placement, when these have left."""
        with self.ledger.trial():
            for key in victims:
                self.ledger.remove_with_pods(key)
            return (
                self.ledger.quota.fits("a", self.context.usage)
                and self.ledger.placement.place(self.context.requests).fits
            )

    def allowed(self) -> Iterator[list[PreemptionTarget]]:
        """Whom Kueue would evict, told of any set of candidates and of those that are leaving anyway."""
        candidates = find_for_fairness(self.ledger, self.context)
        staying = [one for one in candidates if not one.workload.evicted]
        for count in range(len(staying) + 1):
            for some in combinations(staying, count):
                told = [one for one in candidates if one.workload.evicted or one in some]
                with TrialRemoval(self.ledger, self.context, None) as removal:
                    if found := fair_choice(told, removal, self.context, self.sharing):
                        yield found


@st.composite
def gangs(draw: st.DrawFn) -> FairGang:
    """Hosts of two racks, filled by halves and wholes of two relatives' workloads and own ones; a gang wants a rack."""
    runs: dict[str, RunningWorkload] = {}
    for at in range(4):
        size = draw(st.sampled_from([2, 4]))
        for part in range(4 // size):
            runs[f"w{at}{part}"] = RunningWorkload(
                {f"h{at}": size},
                draw(st.integers(0, 2)),
                NOW - draw(st.integers(1, 9)),
                draw(st.sampled_from(["a", "b", "b", "b", "c"])),
                evicted=draw(st.integers(0, 9)) == 0,
            )
    reclaim, within = draw(st.sampled_from(["Any", "LowerPriority"])), draw(st.sampled_from(["LowerPriority", "Never"]))
    queues = [own(draw(st.integers(2, 10)), PreemptionPolicy(reclaim, within), cohort="low")]
    for name in ("b", "c"):
        other = own(draw(st.integers(0, 6)), name=name, cohort=draw(st.sampled_from(["low", "top"])))
        queues.append(replace(other, weight_milli=draw(st.sampled_from([0, 500, 1000]))))
    ledger = cluster(runs, *queues)
    ledger.apply(Cohort("low", parent="top", quotas={("tas", "cpu"): Quota(draw(st.integers(0, 4)) * CPU)}))
    pods, cpus = draw(st.sampled_from([(2, 4), (4, 2), (3, 2), (2, 3)]))
    _, head, found = inquiry(ledger, pods, cpus, priority=draw(st.integers(1, 3)))
    spec, node = ledger.quota.spec("a"), ledger.quota.node("a")
    assert spec is not None
    assert node is not None
    requests = placement_requests(head, spec, found, ledger.flavors, NOW)
    strategies = draw(
        st.sampled_from([(FairStrategy.FINAL_SHARE,), (FairStrategy.INITIAL_SHARE,), tuple(FairStrategy)])
    )
    sharing = FairSharingRules(strategies, draw(st.booleans()))
    return FairGang(ledger, PreemptionContext(head, spec, node, found.usage, needed(found), requests, NOW), sharing)


def check_gang(gang: FairGang) -> None:
    before = dump(gang.ledger)
    choice = fair_cheapest(gang.ledger, gang.context, gang.sharing, 10**6)
    assert dump(gang.ledger) == before
    chosen = [one.candidate.key for one in choice.targets]
    allowed = list(gang.allowed())
    assert bool(chosen) == bool(allowed)
    if chosen:
        assert gang.fits_without(chosen)
        assert not any(gang.fits_without([key for key in chosen if key != one]) for one in chosen)
        assert any({*chosen} <= {one.candidate.key for one in some} for some in allowed)
        if not fair(gang.ledger, gang.context, gang.sharing):
            assert cost(choice.targets) <= min(map(cost, allowed))


def cost(targets: Iterable[PreemptionTarget]) -> Cost:
    return cost_of((one.candidate.workload for one in targets), NOW)


@settings(max_examples=quick(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(gangs())
def test_victims_are_found_wherever_an_allowed_set_suffices(gang: FairGang) -> None:
    check_gang(gang)


@pytest.mark.long
@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(gangs())
def test_victims_are_found_on_many_more_clusters(gang: FairGang) -> None:
    check_gang(gang)
