"""What the preflight says will happen to the jobs of each kind."""

from __future__ import annotations

from typing import Any

import pytest

from admission.doctor.migrating_kinds import fates
from api.kube import resources as kinds
from tests.admission.doctor import healthy
from tests.admission.doctor.healthy import Obj, named
from tests.builders import condition

GROUP = {"kueue.x-k8s.io/is-group-workload": "true"}


def owned(*owners: tuple[str, str], conditions: tuple[Any, ...] = (), annotations: Any = None) -> Obj:
    references = [
        {"apiVersion": version, "kind": kind, "name": f"{kind}-{n}"} for n, (version, kind) in enumerate(owners)
    ]
    meta = {"namespace": "a", "ownerReferences": references, "annotations": annotations or {}}
    return named("w", {"podSets": []}, {"conditions": list(conditions)}, **meta)


RUNS = (condition("QuotaReserved"),)
POD, SET, GROUPS = ("v1", "Pod"), ("apps/v1", "StatefulSet"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")


@pytest.mark.parametrize(
    ("workload", "line"),
    [
        pytest.param(
            owned(("batch/v1", "Job"), conditions=RUNS), "Job: 1 with quota, 0 waiting: those that run", id="Job"
        ),
        pytest.param(owned(("jobset.x-k8s.io/v1alpha2", "JobSet")), "JobSet: 0 with quota, 1 waiting", id="JobSet"),
        pytest.param(owned(("kubeflow.org/v1", "PyTorchJob")), "PyTorchJob: 0 with", id="a declared kind"),
        pytest.param(
            owned(POD, conditions=RUNS), "Pod: 1 with quota, 0 waiting: plain pods and those of Dep", id="pods"
        ),
        pytest.param(
            owned(POD, POD, annotations=GROUP), "pod group: 0 with quota, 1 waiting: pods that", id="pod group"
        ),
        pytest.param(
            owned(SET, POD, POD, annotations=GROUP), "StatefulSet: 0 with quota, 1 waiting: keeps", id="StatefulSet"
        ),
        pytest.param(
            owned(GROUPS, annotations=GROUP), "LeaderWorkerSet: 0 with quota, 1 waiting: each", id="LeaderWorkerSet"
        ),
        pytest.param(owned(("example.com/v1", "Train")), None, id="an unmanaged kind, which a finding names"),
        pytest.param(owned(SET, conditions=(condition("Finished"),)), None, id="one that has ended"),
    ],
)
def test_each_kind_has_a_line(workload: Obj, line: str | None) -> None:
    objects = healthy.objects()
    objects[kinds.WORKLOADS] = [workload]
    told = fates(healthy.view(objects))
    assert len(told) == (line is not None)
    assert line is None or told[0].startswith(line)
