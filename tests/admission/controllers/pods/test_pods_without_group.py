"""What a pod is told that bears the marks of a set and has no group."""

from __future__ import annotations

from typing import Any, cast

import pytest

from admission.controllers.pods.pod_indexes import PodView
from admission.controllers.pods.sets.pods_without_group import PodsWithoutGroup
from admission.controllers.watch.caches import InformerView
from admission.controllers.write.workload_writer import Recorder
from admission.integrations.pods.pod import PodMeta, QueuedPod
from admission.integrations.sets.sets import BY_FRAMEWORK
from api.kube.informers.store import Store
from api.names import POD_SUSPENDING_PARENT, QUEUE_NAME_LABEL, SET_NAME

Object = dict[str, Any]


def stateful_set(queue: str | None) -> Object:
    labels = {QUEUE_NAME_LABEL: queue} if queue else {}
    return {"metadata": {"name": "db", "namespace": "ns", "uid": "u", "labels": labels}, "spec": {}}


def without_group(*sets: Object) -> PodsWithoutGroup:
    store: Store[Object] = Store("sets")
    for one in sets:
        store.upsert(one)
    views = {"statefulset": cast("InformerView[Object]", store)}
    kinds = {"statefulset": BY_FRAMEWORK["statefulset"]}
    pods, recorder = cast("PodView", Store("pods")), cast("Recorder", None)
    return PodsWithoutGroup(pods, kinds, views, recorder, lambda obj: QUEUE_NAME_LABEL in obj["metadata"]["labels"])


@pytest.mark.parametrize(
    ("marks", "owner", "sets", "message"),
    [
        pytest.param({POD_SUSPENDING_PARENT: "x" * 5000, SET_NAME: "db"}, "", (), "no managed kind of set", id="kind"),
        pytest.param({POD_SUSPENDING_PARENT: "statefulset"}, "", (), "names none", id="no name"),
        pytest.param({POD_SUSPENDING_PARENT: "statefulset"}, "db", (), "ns/db, which does not exist", id="no set"),
        pytest.param(
            {POD_SUSPENDING_PARENT: "statefulset"}, "db", (stateful_set(None),), "ns/db, which is not queued", id="free"
        ),
        pytest.param(
            {POD_SUSPENDING_PARENT: "statefulset"}, "db", (stateful_set("q"),), "has no Workload for it", id="its own"
        ),
    ],
)
def test_it_is_told_what_its_marks_lack(marks: Object, owner: str, sets: tuple[Object, ...], message: str) -> None:
    pod = QueuedPod(PodMeta("p", "ns", "u", "1"), annotations=marks, owner=owner, gated=True, spec=b"{}")
    found = without_group(*sets).why(pod)
    assert message in found
    assert len(found) < 600
