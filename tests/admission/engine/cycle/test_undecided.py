"""A workload on which the cycle fails stops nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from admission.engine.cycle.cycle import run_cycle
from admission.engine.model import Workload
from admission.engine.preemption.preemptor import Preemptor
from tests.admission.engine.builders import BEST, STRICT, Cluster, admitted, host, queue, racks, workload
from tests.admission.engine.cycle.evicting_cluster import evicting


class Poison:
    """Raises whatever is asked of it; equal shapes are told by it as by any other amount."""

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return self is other

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("poisoned")


def poisoned(key: str, queued: float, **more: Any) -> Workload:
    made = workload(key, 1, queued=queued, **more)
    return replace(made, pod_sets=(replace(made.pod_sets[0], requests={"cpu": cast("int", Poison())}),))


@pytest.mark.parametrize("fair", [False, True], ids=["classical", "fair"])
@pytest.mark.parametrize("strategy", [BEST, STRICT], ids=str)
def test_the_others_are_decided_on(strategy: Any, fair: bool) -> None:
    cluster = Cluster(racks(), *(host(f"x{n}", "x", 4) for n in range(2)))
    for name in "ab":
        cluster.tell(evicting(queue(name, strategy=strategy, cohort="c", tas=4)))
    cluster.tell(
        workload("before", 1, to="a", queued=1), poisoned("bad", 2, to="a"), workload("after", 1, to="a", queued=3)
    )
    cluster.tell(poisoned("worse", 1, to="b"), workload("other", 1, to="b", queued=2))
    report = run_cycle(cluster.ledger, cluster.queues, 0.0, 100, Preemptor(cluster.ledger, 0.0, None), fair=fair)
    assert sorted(admitted(report)) == ["after", "before", "other"]
    assert {each.key for each, _ in report.undecided} == {"bad", "worse"}
    assert cluster.ledger.audit() == []
    assert not cluster.queues.count("a")
    again = report.undecided[0][0]
    cluster.queues.put(replace(again, not_before=60.0))
    assert run_cycle(cluster.ledger, cluster.queues, 1.0, 100).decisions == ()
    assert cluster.queues.next_due() == 60.0
    assert [each.key for each, _ in run_cycle(cluster.ledger, cluster.queues, 60.0, 100).undecided] == [again.key]
