"""What the volumes of a Workload's pods require is placed by, and told."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine.convert import convert_admissions
from admission.engine.decision import Admit, Wait
from admission.engine.queue.notices import NotEvaluated
from api.kube.resources import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    STORAGE_CLASSES,
    VOLUMES,
    WORKLOADS,
)
from api.names import HOSTNAME_LABEL, IS_GROUP_WORKLOAD
from tests.admission.controllers.watch.test_feed_resources import FeedCluster, reserved
from tests.admission.controllers.watch.test_runtime_classes import host_of
from tests.admission.controllers.watch.volumes.test_binding import among, claim, storage_class, volume


class VolumeCluster(FeedCluster):
    """Nodes a, b and c, each with four CPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.add(RESOURCE_FLAVORS, {"metadata": {"name": "any"}, "spec": {"topology": {"levels": [HOSTNAME_LABEL]}}})
        for name in "abc":
            meta = {"name": name, "labels": {HOSTNAME_LABEL: name}}
            status = {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
            self.add(NODES, {"metadata": meta, "spec": {}, "status": status})

    def uses(
        self,
        *sources: dict[str, Any],
        count: int = 1,
        name: str = "w",
        group: bool = False,
        admitted: Admit | None = None,
    ) -> None:
        """A Workload whose pods have these volumes; with `admitted` it has quota."""
        volumes = [{"name": f"v{n}", **source} for n, source in enumerate(sources)]
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "volumes": volumes}
        pod_set = {"name": "main", "count": count, "template": {"spec": spec}}
        annotations = {IS_GROUP_WORKLOAD: "true"} if group else {}
        meta: dict[str, Any] = {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        status: dict[str, Any] = {}
        if admitted is not None:
            status["conditions"] = reserved()
            status["admission"] = convert_admissions.to_status(admitted.admission).to_wire()
        body: dict[str, Any] = {"queueName": "lq", "podSets": [pod_set]}
        self.add(WORKLOADS, {"metadata": {**meta, "annotations": annotations}, "spec": body, "status": status})

    def told(self) -> Any:
        report = self.world.cycle()
        found: list[Any] = [*report.decisions, *report.notices]
        return found[-1] if found else None

    def says(self) -> str:
        told = self.told()
        assert isinstance(told, NotEvaluated)
        return f"{told.reason}: {told.message}"


DATA = {"persistentVolumeClaim": {"claimName": "data"}}


def scratch(name: str) -> dict[str, Any]:
    return {
        "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}}}
    }


@pytest.mark.parametrize("first", ["volumes", "workload"])
def test_pods_go_where_their_volume_is(first: str) -> None:
    cluster = VolumeCluster()
    if first == "workload":
        cluster.uses(DATA, count=2)
        assert cluster.says() == "WaitingForObjects: waits for PersistentVolumeClaim data to be created"
    cluster.add(CLAIMS, claim(volume="v"))
    cluster.add(VOLUMES, volume("v", among(HOSTNAME_LABEL, "c")))
    if first == "volumes":
        cluster.uses(DATA, count=2)
    told = cluster.told()
    assert isinstance(told, Admit)
    assert host_of(told) == "c"


def test_it_waits_until_its_claim_is_bound() -> None:
    cluster = VolumeCluster()
    cluster.add(STORAGE_CLASSES, storage_class("local", waits=False))
    cluster.add(CLAIMS, claim())
    cluster.uses(DATA)
    assert cluster.says() == "WaitingForObjects: waits for PersistentVolumeClaim data to be bound"
    cluster.add(VOLUMES, volume("v", among(HOSTNAME_LABEL, "b"), phase="Bound"))
    cluster.add(CLAIMS, claim(volume="v"))
    told = cluster.told()
    assert isinstance(told, Admit)
    assert host_of(told) == "b"


def test_too_many_pods_for_the_node_of_a_volume_wait_and_say_so() -> None:
    cluster = VolumeCluster()
    cluster.add(VOLUMES, volume("v", among(HOSTNAME_LABEL, "b")))
    cluster.add(CLAIMS, claim(volume="v"))
    cluster.uses(DATA, count=5)
    told = cluster.told()
    assert isinstance(told, Wait)
    assert "volumes: 2" in told.message


def test_local_volumes_become_known_one_by_one() -> None:
    cluster = VolumeCluster()
    cluster.add(STORAGE_CLASSES, storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    cluster.add(CLAIMS, claim())
    cluster.uses(DATA)
    assert "waits for a PersistentVolume of StorageClass local that matches" in cluster.says()
    cluster.add(VOLUMES, volume("v", among(HOSTNAME_LABEL, "b")))
    assert isinstance(cluster.told(), Admit)


@pytest.mark.parametrize(
    ("name", "host"), [pytest.param("fast", "c", id="allowed"), pytest.param("any", "a", id="anywhere")]
)
def test_claims_that_are_made_for_each_pod_go_where_their_class_makes_volumes(name: str, host: str) -> None:
    cluster = VolumeCluster()
    topologies = [{"matchLabelExpressions": [{"key": HOSTNAME_LABEL, "values": ["c"]}]}]
    cluster.add(STORAGE_CLASSES, storage_class("fast") | {"allowedTopologies": topologies})
    cluster.add(STORAGE_CLASSES, storage_class("any"))
    cluster.uses(scratch(name), count=3)
    told = cluster.told()
    assert isinstance(told, Admit)
    assert host_of(told) == host


ALONE = claim(volume="v", accessModes=["ReadWriteOncePod"])


def test_a_claim_for_one_pod_that_two_pods_name_never_binds_and_says_so() -> None:
    cluster = VolumeCluster()
    cluster.add(VOLUMES, volume("v"))
    cluster.add(CLAIMS, ALONE)
    cluster.uses(DATA, count=2)
    expected = "PersistentVolumeClaim data is ReadWriteOncePod, and 2 pods of this workload name it"
    assert cluster.says() == f"Misconfigured: {expected}"


def test_a_claim_for_one_pod_waits_for_the_pod_that_has_it() -> None:
    cluster = VolumeCluster()
    cluster.add(VOLUMES, volume("v"))
    cluster.add(CLAIMS, ALONE)
    spec = {"nodeName": "a", "containers": [], "volumes": [{"name": "v", **DATA}]}
    user = {"metadata": {"name": "user", "namespace": "ns"}, "spec": spec, "status": {"phase": "Running"}}
    cluster.add(PODS, user)
    cluster.uses(DATA)
    expected = "PersistentVolumeClaim data is ReadWriteOncePod, and pod user uses it"
    assert cluster.says() == f"WaitingForObjects: {expected}"
    cluster.add(PODS, user | {"status": {"phase": "Succeeded"}})
    assert isinstance(cluster.told(), Admit)


def test_the_claim_of_one_pod_of_a_group_does_not_say_where_the_others_go() -> None:
    cluster = VolumeCluster()
    cluster.add(VOLUMES, volume("v", among(HOSTNAME_LABEL, "b")))
    cluster.add(CLAIMS, claim(volume="v"))
    cluster.uses(DATA, count=5, group=True)
    assert isinstance(cluster.told(), Admit)


def test_volumes_of_other_kinds_are_of_no_interest() -> None:
    cluster = VolumeCluster()
    cluster.uses({"emptyDir": {}}, {"persistentVolumeClaim": {}}, {"hostPath": {"path": "/data"}})
    assert isinstance(cluster.told(), Admit)


NO_PROVISIONER = storage_class("local", provisioner="kubernetes.io/no-provisioner")


def test_pods_that_share_an_unbound_claim_go_to_one_host() -> None:
    """Four CPUs a host: by capacity alone five pods would be on two hosts, of which one does not reach the volume."""
    cluster = VolumeCluster()
    cluster.add(STORAGE_CLASSES, NO_PROVISIONER)
    for host in "bc":
        cluster.add(VOLUMES, volume(f"on-{host}", among(HOSTNAME_LABEL, host)))
    cluster.add(CLAIMS, claim())
    cluster.uses(DATA, count=5)
    told = cluster.told()
    assert isinstance(told, Wait)
    assert "at most 4 out of 5 pod(s) in one domain of kubernetes.io/hostname" in told.message
    assert "where a volume that they share keeps them together" in told.message
    cluster.uses(DATA, count=4)
    assert isinstance(told := cluster.told(), Admit)
    assert host_of(told) in "bc"


def test_two_workloads_do_not_count_on_the_same_volume() -> None:
    """The second one waits, and says for whom, until the claim of the first is bound."""
    cluster = VolumeCluster()
    cluster.add(STORAGE_CLASSES, NO_PROVISIONER)
    cluster.add(VOLUMES, volume("v", among(HOSTNAME_LABEL, "a", "b")))
    cluster.add(VOLUMES, volume("w", among(HOSTNAME_LABEL, "a", "b")))
    for name in ("one", "two"):
        cluster.add(CLAIMS, claim(name))
    cluster.uses({"persistentVolumeClaim": {"claimName": "one"}}, count=2, name="one")
    told = cluster.told()
    assert isinstance(told, Admit)
    cluster.uses({"persistentVolumeClaim": {"claimName": "one"}}, count=2, name="one", admitted=told)
    cluster.uses({"persistentVolumeClaim": {"claimName": "two"}}, count=2, name="two")
    text = "waits until the pods of Workload one have their PersistentVolumes of StorageClass local"
    assert cluster.says() == f"WaitingForObjects: {text}"
    cluster.add(VOLUMES, volume("v", among(HOSTNAME_LABEL, "a", "b"), phase="Bound"))
    cluster.add(CLAIMS, claim("one", volume="v"))
    assert isinstance(cluster.told(), Admit)


def capacity(name: str, host: str, **more: Any) -> dict[str, Any]:
    where = {"matchLabels": {HOSTNAME_LABEL: host}}
    return {
        "metadata": {"name": name, "namespace": "driver"},
        "storageClassName": "fast",
        "nodeTopology": where,
        **more,
    }


def of_two_gi(name: str) -> dict[str, Any]:
    spec = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


@pytest.mark.parametrize("form", ["of-each-pod", "named"])
def test_a_driver_that_tells_its_capacity_limits_the_nodes(form: str) -> None:
    """kube-scheduler's rule for CSIStorageCapacity: the largest volume if given, else the capacity, for the nodes selected."""
    cluster = VolumeCluster()
    cluster.add(STORAGE_CLASSES, storage_class("fast"))
    cluster.add(CSI_DRIVERS, {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}})
    cluster.add(CSI_CAPACITIES, capacity("a", "a", capacity="1Gi"))
    cluster.add(CSI_CAPACITIES, capacity("b", "b", capacity="9Gi", maximumVolumeSize="1Gi"))
    if form == "named":
        asked = {"requests": {"storage": "2Gi"}}
        cluster.add(CLAIMS, claim(storageClassName="fast", resources=asked))
    cluster.uses(DATA if form == "named" else of_two_gi("fast"))
    what = "PersistentVolumeClaim data" if form == "named" else "volume v0"
    assert cluster.says() == f"WaitingForObjects: {what}: no CSIStorageCapacity of StorageClass fast has 2Gi left"
    cluster.add(CSI_CAPACITIES, capacity("c", "c", capacity="2Gi"))
    told = cluster.told()
    assert isinstance(told, Admit)
    assert host_of(told) == "c"


def test_a_driver_that_does_not_tell_its_capacity_limits_nothing() -> None:
    cluster = VolumeCluster()
    cluster.add(STORAGE_CLASSES, storage_class("fast"))
    cluster.add(CSI_DRIVERS, {"metadata": {"name": "csi.example.com"}, "spec": {}})
    cluster.add(CSI_CAPACITIES, capacity("a", "a", capacity="1Gi"))
    cluster.uses(of_two_gi("fast"))
    assert isinstance(cluster.told(), Admit)
