"""At rest a fresh look at every waiting workload decides nothing, and nobody waits whom a slow model lets start.

The fresh look is the engine's own, on queues that remember nothing. The model knows quota alone, by the formulas of
cycle.md 4.3, and so only the workloads to which nothing else applies. In the same scenes a restored snapshot goes on
as the original does.
"""

from __future__ import annotations

import msgspec
import pytest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Decision, Wait
from admission.engine.model import ClusterQueue, QueueingStrategy, Quota, StopPolicy
from admission.world.snapshot import capture_world, decode, from_snapshot
from tests.admission.engine.queue.drawn_scenes import CYCLES, PLAIN, Evicting, Scene, brief, describe
from tests.admission.engine.quota.test_quota import Formulas
from tests.budgets import quick

EVENTS = 14
"""Events of one scene."""
SHORT, LONG = range(quick(100)), range(2000)


def fresh_look(scene: Scene) -> list[Decision]:
    """What cycles decide on a copy of the cluster whose queues remember no refusal, no reservation and no claim."""
    seen = capture_world(scene.world)
    nothing = dict.fromkeys(("refused", "short", "untold", "returning", "promised", "claims", "kept", "unforeseen"), ())
    copy = from_snapshot(msgspec.structs.replace(seen, **nothing))
    decisions: list[Decision] = []
    for _ in range(CYCLES):
        report = copy.cycle()
        decisions += report.decisions
        if not report.more or any(not isinstance(one, Wait) for one in report.decisions):
            break
    return decisions


def startable(scene: Scene) -> list[str]:
    """Those that wait although the quota of a flavor without nodes is free for all their pods, and nobody comes first."""
    ledger = scene.world.ledger
    specs = {name: spec for name in scene.names if (spec := ledger.quota.spec(name)) is not None}
    strict = {
        relative
        for name, spec in specs.items()
        if spec.strategy is QueueingStrategy.STRICT_FIFO
        for relative in ledger.quota.relatives(name)
    }
    plain = {name: quotas_of(spec, PLAIN) for name, spec in specs.items()}
    nodes = {name: (spec.cohort, plain[name]) for name, spec in specs.items()}
    nodes |= {
        name: (cohort.parent, cohort.quotas.get((PLAIN, "cpu"), Quota(0))) for name, cohort in scene.shared.items()
    }
    used = dict.fromkeys(specs, 0)
    for admission in ledger.admissions.values():
        if admission.cluster_queue in used:  # a spare host may be charged to no queue
            used[admission.cluster_queue] += admission.usage().get((PLAIN, "cpu"), 0)
    formulas, found = Formulas(nodes, used), []
    for one in scene.world.queues.workloads():
        spec, (pod_set,) = specs[one.cluster_queue], one.pod_sets
        held_back = one.blocked is not None or one.not_before > scene.world.now or spec.stop is not StopPolicy.NONE
        if held_back or one.gang is not None or one.replaces or pod_set.topology is not None or spec.reserves_starts:
            continue
        alone = PLAIN in spec.flavors and one.cluster_queue not in strict and not any(scene.world.queues.starts.all())
        wanted = pod_set.count * pod_set.requests["cpu"]
        if alone and wanted <= min(formulas.available(spec.name), formulas.potential(spec.name)):
            found.append(f"{describe(one)}: {formulas.available(spec.name)} are free")
    return found


def quotas_of(spec: ClusterQueue, flavor: str) -> Quota:
    """The queue's quota of cpu in this flavor."""
    quotas = (each.quotas["cpu"] for group in spec.groups for each in group.flavors if each.flavor == flavor)
    return next(quotas, Quota(0))


def missed(seed: int, events: int = EVENTS, kind: type[Scene] = Scene) -> str:
    """Returns what a fresh look decides in this scene at rest, or whom the model lets start; empty if there is nothing."""
    scene = kind(seed)
    for _ in range(events):
        scene.step()
        if scene.leaving:
            continue
        if late := [one for one in fresh_look(scene) if not isinstance(one, Wait)]:
            return f"seed {seed}: {'; '.join(map(brief, late))} after {scene.log[-1:]}"
        if forgotten := startable(scene):
            return f"seed {seed}: {forgotten} after {scene.log[-1:]}"
    return ""


@pytest.mark.parametrize("part", range(4))
def test_at_rest_a_fresh_look_decides_nothing(part: int) -> None:
    assert [why for seed in SHORT[part::4] if (why := missed(seed))] == []


def test_at_rest_a_fresh_look_decides_nothing_where_every_queue_may_evict() -> None:
    """In 54 and 96 a claim that a cycle had dropped still counted against the workloads after it. In 1588 a slice grew in place
    of the one that the same cycle evicted; in 1589 a member of a gang group started, and in 1632 one ended, and nobody woke
    who may evict the others since.
    """
    assert [why for seed in (*range(quick(6)), 54, 96, 1588, 1589, 1632) if (why := missed(seed, 40, Evicting))] == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_at_rest_a_fresh_look_decides_nothing_in_very_many_scenes_where_every_queue_may_evict(part: int) -> None:
    assert [why for seed in LONG[part::20] if (why := missed(seed, 40, Evicting))] == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_at_rest_a_fresh_look_decides_nothing_in_very_many_scenes(part: int) -> None:
    assert [why for seed in LONG[part::20] if (why := missed(seed, 40))] == []


class Restored(Scene):
    """Each cycle runs twice: the second time on a copy from a snapshot, which must decide the same in the same order."""

    def cycle(self) -> CycleReport:
        seen = capture_world(self.world)
        copy = from_snapshot(decode(seen.encode()))
        assert capture_world(copy) == seen
        again, report = copy.cycle(), super().cycle()
        assert list(map(brief, again.decisions)) == list(map(brief, report.decisions))
        assert again.more == report.more
        return report


def restored(seed: int, events: int) -> str:
    """Returns where a restored copy decides otherwise in this scene; empty if it never does."""
    try:
        scene = Restored(seed)
        for _ in range(events):
            scene.step()
    except AssertionError as wrong:
        return f"seed {seed}: {wrong}"
    return ""


def test_a_restored_snapshot_decides_the_same_in_the_same_order() -> None:
    """In 66 and 67 what one head requeued had its turn in the same cycle; in 47 a preemptor blocked its queue."""
    assert [why for seed in (*range(quick(8)), 47, 66, 67) if (why := restored(seed, 30))] == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_a_restored_snapshot_decides_the_same_in_the_same_order_in_very_many_scenes(part: int) -> None:
    assert [why for seed in range(part, 1000, 10) if (why := restored(seed, 40))] == []
