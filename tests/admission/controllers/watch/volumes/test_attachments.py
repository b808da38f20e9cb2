"""A node attaches so many volumes of a driver and no more."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.watch.volumes.attachments import MOST_DRIVERS
from admission.engine.decision import Admit, Wait
from api.kube.resources import CLAIMS, CSI_NODES, PODS, STORAGE_CLASSES, VOLUMES, WORKLOADS
from tests.admission.controllers.watch.devices.test_view import places
from tests.admission.controllers.watch.volumes.test_binding import claim, storage_class, volume
from tests.admission.controllers.watch.volumes.test_view import DATA, VolumeCluster, scratch

DRIVER = "csi.example.com"
LIMITED = 'resource "attachable-volumes-csi-csi.example.com"'


class AttachingCluster(VolumeCluster):
    """Nodes a and b can have two volumes of the driver each, node c none."""

    def __init__(self, *, limits: bool = True) -> None:
        super().__init__()
        self.add(STORAGE_CLASSES, storage_class("fast"))
        for node, count in {"a": 2, "b": 2, "c": 0}.items() if limits else ():
            self.limit(node, count)

    def limit(self, node: str, count: int, driver_name: str = DRIVER) -> None:
        driver = {"name": driver_name, "nodeID": node, "allocatable": {"count": count}}
        self.add(CSI_NODES, {"metadata": {"name": node}, "spec": {"drivers": [driver]}})

    def foreign(self, node: str, name: str, phase: str = "Running") -> None:
        """A pod with a claim of its own that is bound to a volume of the driver."""
        self.add(VOLUMES, volume(f"v-{name}", csi={"driver": DRIVER}, phase="Bound"))
        self.add(CLAIMS, claim(name, volume=f"v-{name}"))
        spec = {
            "nodeName": node,
            "containers": [],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
        }
        self.add(PODS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"phase": phase}})


def test_claims_of_each_pod_are_spread_by_what_nodes_can_attach() -> None:
    cluster = AttachingCluster()
    cluster.uses(scratch("fast"), count=4)
    assert places(cluster.told()) == {"a": 2, "b": 2}
    cluster.uses(scratch("fast"), name="next")
    told = cluster.told()
    assert isinstance(told, Wait)
    assert f"{LIMITED}: 3" in told.message
    cluster.limit("c", 1)
    assert isinstance(cluster.told(), Admit), "a change of the limit is seen"


def test_two_volumes_of_a_pod_count_twice() -> None:
    cluster = AttachingCluster()
    cluster.uses(scratch("fast"), scratch("fast"), count=2)
    assert places(cluster.told()) == {"a": 1, "b": 1}


@pytest.mark.parametrize("first", ["pods", "workload"])
def test_volumes_of_pods_from_elsewhere_count(first: str) -> None:
    cluster = AttachingCluster()
    if first == "workload":
        cluster.uses(scratch("fast"), count=5)
        cluster.told()
    cluster.foreign("a", "one")
    cluster.foreign("b", "two")
    cluster.uses(scratch("fast"), count=3)
    assert isinstance(cluster.told(), Wait)
    cluster.foreign("b", "two", "Succeeded")
    assert places(cluster.told()) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "modes",
    [pytest.param(["ReadWriteMany"], id="many-nodes"), pytest.param(["ReadWriteOnce"], id="one-node")],
)
def test_a_claim_that_all_pods_have_together_counts_for_each(modes: list[str]) -> None:
    """It needs an attachment on each of their hosts, where other volumes may have taken the last one."""
    cluster = AttachingCluster()
    cluster.add(VOLUMES, volume("v", csi={"driver": DRIVER}, accessModes=modes))
    cluster.add(CLAIMS, claim(volume="v", accessModes=modes))
    cluster.foreign("a", "one")
    cluster.foreign("a", "two")
    cluster.uses(DATA, count=2)
    assert places(cluster.told()) == {"b": 2}
    cluster.uses(DATA, count=3, name="next")
    assert isinstance(cluster.told(), Wait)


def test_without_limits_any_number_goes() -> None:
    cluster = AttachingCluster(limits=False)
    cluster.uses(*[scratch("fast")] * 9)
    told: Any = cluster.told()
    assert isinstance(told, Admit)


def test_drivers_without_a_limit_any_more_make_room_for_others() -> None:
    """After 32 drivers in its life the controller counted the attachments of no other one."""
    cluster = AttachingCluster(limits=False)
    for n in range(MOST_DRIVERS):
        cluster.limit("c", 2, f"driver-{n}")
        cluster.add(STORAGE_CLASSES, storage_class(f"other-{n}", provisioner=f"driver-{n}"))
        cluster.uses(scratch(f"other-{n}"), name=f"w{n}")
        cluster.objects._stores[WORKLOADS].delete_key(f"ns/w{n}")
    for node, count in {"a": 2, "b": 2, "c": 0}.items():
        cluster.limit(node, count)
    cluster.uses(scratch("fast"), count=4)
    assert places(cluster.told()) == {"a": 2, "b": 2}
