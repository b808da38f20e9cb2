"""Volumes that are on single hosts: a node takes as many pods as it has of them left."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.watch.volumes import local, view
from admission.engine.decision import Admit, Wait
from api.kube.resources import CLAIMS, PODS, STORAGE_CLASSES, VOLUMES, WORKLOADS
from api.names import HOSTNAME_LABEL
from api.pod.volumes import NO_PROVISIONER
from tests.admission.controllers.watch.devices.test_view import places
from tests.admission.controllers.watch.volumes.test_binding import among, claim, storage_class, volume
from tests.admission.controllers.watch.volumes.test_view import VolumeCluster, scratch

MOST_CLASSES = 4
"""Enough to reach the bound; the real one takes seconds."""


@pytest.fixture
def few_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (local, view):
        monkeypatch.setattr(module, "MOST_CLASSES", MOST_CLASSES)


class LocalCluster(VolumeCluster):
    """Node a has two free volumes, node b one, node c none."""

    def __init__(self) -> None:
        super().__init__()
        self.add(STORAGE_CLASSES, storage_class("disk", provisioner=NO_PROVISIONER))
        for name in ("a0", "a1", "b0"):
            self.disk(name)

    def disk(self, name: str, **more: Any) -> None:
        given = {"storageClassName": "disk", **more}
        self.add(VOLUMES, volume(name, among(HOSTNAME_LABEL, name[0]), **given))

    def other_classes(self, number: int) -> None:
        """As many classes with one volume each, of which a pod of a workload chooses one."""
        for n in range(number):
            self.add(STORAGE_CLASSES, storage_class(f"other-{n}", provisioner=NO_PROVISIONER))
            self.disk(f"c-{n}", storageClassName=f"other-{n}")
            self.uses(scratch(f"other-{n}"), name=f"w{n}")

    def take(self, disk: str, *, bound: bool = True) -> None:
        """A pod from elsewhere takes the volume; `bound`: it is on its node already."""
        self.disk(disk, claimRef={"namespace": "ns", "name": f"of-{disk}"}, phase="Bound")
        self.add(CLAIMS, claim(f"of-{disk}", disk, storageClassName="disk"))
        if bound:
            self.add(PODS, self.pod(disk))

    def pod(self, disk: str, phase: str = "Running") -> dict[str, Any]:
        source = {"name": "v", "persistentVolumeClaim": {"claimName": f"of-{disk}"}}
        spec = {"nodeName": disk[0], "containers": [], "volumes": [source]}
        return {"metadata": {"name": f"p-{disk}", "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}


def test_the_pods_of_a_gang_go_where_volumes_are_left() -> None:
    cluster = LocalCluster()
    cluster.uses(scratch("disk"), count=3)
    assert places(cluster.told()) == {"a": 2, "b": 1}
    cluster.uses(scratch("disk"), name="next")
    assert not isinstance(cluster.told(), Admit), "the volumes of those that are admitted are not free"


def test_a_volume_that_a_claim_has_is_taken_once_also_before_its_pod_is_bound() -> None:
    for bound in (True, False):
        cluster = LocalCluster()
        cluster.take("a0", bound=bound)
        cluster.uses(scratch("disk"), count=2)
        assert places(cluster.told()) == {"a": 1, "b": 1}


def test_a_released_volume_is_no_room_when_its_pod_has_ended() -> None:
    cluster = LocalCluster()
    cluster.take("a0")
    cluster.add(PODS, cluster.pod("a0", phase="Succeeded"))
    cluster.uses(scratch("disk"), count=2)
    assert places(cluster.told()) == {"a": 1, "b": 1}


def test_a_volume_that_several_nodes_reach_and_a_claim_has_changes_nothing() -> None:
    cluster = LocalCluster()
    wide = volume("wide", among(HOSTNAME_LABEL, "a", "b", "c"), storageClassName="disk")
    cluster.add(VOLUMES, {**wide, "spec": {**wide["spec"], "claimRef": {"namespace": "ns", "name": "other"}}})
    cluster.uses(scratch("disk"), count=3)
    assert places(cluster.told()) == {"a": 2, "b": 1}


@pytest.mark.usefixtures("few_classes")
def test_classes_whose_volumes_are_gone_make_room_for_others() -> None:
    """After 32 classes in its life the controller counted the volumes of no other one, without a word."""
    cluster = LocalCluster()
    cluster.other_classes(MOST_CLASSES)
    for n in range(MOST_CLASSES):
        cluster.objects._stores[WORKLOADS].delete_key(f"ns/w{n}")
        cluster.objects._stores[VOLUMES].delete_key(f"c-{n}")
    cluster.uses(scratch("disk"), count=3)
    assert places(cluster.told()) == {"a": 2, "b": 1}


@pytest.mark.usefixtures("few_classes")
def test_a_class_that_is_not_counted_is_named() -> None:
    cluster = LocalCluster()
    cluster.other_classes(MOST_CLASSES)
    cluster.uses(scratch("disk"), count=3)
    while isinstance(told := cluster.told(), (Admit, Wait)):
        pass
    assert f"more than {MOST_CLASSES} StorageClasses are asked for: those of disk are not counted" in told.message
