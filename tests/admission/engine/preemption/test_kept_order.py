"""The order of candidates that is kept from question to question is that of a ledger that was never asked."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ObjectRemoved, RemovedKind, Workload
from admission.engine.preemption.candidates import find
from tests.admission.engine.preemption.drawn_clusters import NOW, QUEUES, DrawnCluster, scenes
from tests.budgets import examples

some = settings(
    max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def order(scene: DrawnCluster) -> list[tuple[object, ...]]:
    """All that a search reads of the candidates of the head, and of others that are more and less important."""
    heads = (scene.head, replace(scene.head, priority=1), replace(scene.head, priority=3, queued=200.0))
    return [
        (one.key, one.workload, one.node.name, dict(one.usage), one.variant, one.top and one.top.name)
        for head in heads
        for one in find(scene.ledger, replace(scene, head=head).context()).in_order
    ]


def anew(scene: DrawnCluster) -> list[tuple[object, ...]]:
    """The same of a ledger that is built from the inputs."""
    ledger = Ledger(scene.ledger.options)
    for event in scene.ledger.inputs():
        ledger.apply(event)
    return order(replace(scene, ledger=ledger))


def changed(workload: Workload, draw: st.DataObject) -> Workload:
    return replace(
        workload,
        evicted=draw.draw(st.booleans()),
        priority=draw.draw(st.integers(-1, 4)),
        reserved=draw.draw(st.sampled_from([None, NOW - 50, NOW - 100, NOW + 5])),
        priority_elsewhere=draw.draw(st.sampled_from([None, None, None, -2])),
    )


@some
@given(scenes(), st.data())
def test_changes_and_trials_leave_the_order_of_a_ledger_that_was_never_asked(
    scene: DrawnCluster, data: st.DataObject
) -> None:
    ledger = scene.ledger
    assert order(scene) == anew(scene)
    running = {workload.key: workload for workload in scene.running}
    for key in data.draw(st.lists(st.sampled_from(sorted(running)), max_size=4)):
        workload = ledger.workload(key)
        match data.draw(st.sampled_from(["change", "end", "start", "try", "keep"])):
            case "change" if workload is not None:
                ledger.apply(changed(workload, data))
            case "end":
                ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
            case "start" if workload is None:
                ledger.apply(running[key])
            case "try":
                before = order(scene)
                with ledger.trial():
                    ledger.release(key)
                    assert key not in {one[0] for one in order(scene)}
                assert order(scene) == before
            case "keep" if workload is not None:
                with ledger.away(frozenset((key,))):
                    assert key not in {one[0] for one in order(scene)}
        assert order(scene) == anew(scene)
    assert set(QUEUES) >= {one[2] for one in order(scene)}
