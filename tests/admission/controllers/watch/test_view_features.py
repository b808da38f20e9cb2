"""A feature that is left out of the view costs nothing and breaks nothing: who does not use it is admitted alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from admission.controllers.watch import cluster_view
from admission.controllers.watch.advance_reservations.view import AdvanceReservationView
from admission.controllers.watch.devices.view import DeviceView
from admission.controllers.watch.sakkara_trees import Trees
from admission.controllers.watch.view_feature import ViewFeature
from admission.controllers.watch.volumes.view import VolumeView
from admission.engine.decision import Admit
from api.kube.resources import ADVANCE_RESERVATIONS, RESOURCE_FLAVORS
from api.names import HOSTNAME_LABEL, SAKKARA_QUEUE
from tests.admission.controllers.watch.devices.test_view import DeviceCluster
from tests.admission.controllers.watch.volumes.test_view import DATA, VolumeCluster


def left_out(monkeypatch: pytest.MonkeyPatch, feature: type[ViewFeature]) -> None:
    assert feature in cluster_view.FEATURES
    monkeypatch.setattr(cluster_view, "FEATURES", [each for each in cluster_view.FEATURES if each is not feature])


@pytest.mark.parametrize("feature", cluster_view.FEATURES)
def test_who_does_not_use_a_feature_is_admitted_alike_without_it(
    feature: type[ViewFeature], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decided() -> object:
        cluster = VolumeCluster()
        cluster.uses(count=3)
        return cluster.told()

    before = decided()
    assert isinstance(before, Admit)
    left_out(monkeypatch, feature)
    assert decided() == before


def unknown_claim() -> VolumeCluster:
    """A pod names a claim that does not exist."""
    cluster = VolumeCluster()
    cluster.uses(DATA)
    return cluster


def too_few_devices() -> VolumeCluster:
    """The nodes have four GPUs for five pods."""
    cluster = DeviceCluster()
    cluster.asks(5)
    return cluster


def flat_tree() -> VolumeCluster:
    """The flavor has the topology that there is without any ConfigMap."""
    cluster = VolumeCluster()
    cluster.add(RESOURCE_FLAVORS, {"metadata": {"name": "any"}, "spec": {"topologyName": SAKKARA_QUEUE}})
    cluster.uses(count=3)
    return cluster


def reserved() -> VolumeCluster:
    """Each node is reserved for maintenance, and the pods have no time limit."""
    cluster = flat_tree()
    times = {"start": "2100-01-01T00:00:00Z", "end": "2101-01-01T00:00:00Z"}
    for name in "abc":
        spec = {"nodeLabels": {HOSTNAME_LABEL: name}, **times}
        cluster.add(ADVANCE_RESERVATIONS, {"metadata": {"name": name}, "spec": spec})
    return cluster


@pytest.mark.parametrize(
    ("feature", "scene", "starts"),
    [
        (VolumeView, unknown_claim, False),
        (DeviceView, too_few_devices, False),
        (Trees, flat_tree, True),
        (AdvanceReservationView, reserved, False),
    ],
)
def test_a_feature_is_what_its_hooks_say(
    feature: type[ViewFeature], scene: Callable[[], VolumeCluster], starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(scene().told(), Admit) is starts
    left_out(monkeypatch, feature)
    assert isinstance(scene().told(), Admit) is not starts
