"""Elastic quotas in files: jobs that name no queue go by them, as in a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine.decision import Admit, Wait
from admission.world.world import World
from tests.admission.world.world_documents import Manifest, job, manifest, queue, tree, world

X, SIGS = "scheduling.x-k8s.io/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1"


def quota(name: str = "quota", namespace: str = "default", version: str = X, **spec: Any) -> Manifest:
    return manifest("ElasticQuota", name, namespace, spec=spec) | {"apiVersion": version}


def unnamed(name: str, pods: int) -> Manifest:
    """A job that names no queue."""
    made = job(name, pods)
    made["metadata"].pop("labels", None)
    return made


def decided(scene: World) -> dict[str, str]:
    """What comes of each job: `admitted`, or why not."""
    found = {}
    for decision in scene.cycle().decisions:
        title = scene.title(decision.workload).rpartition("/")[2]
        if isinstance(decision, Admit):
            found[title] = f"admitted by {decision.admission.cluster_queue}"
        elif isinstance(decision, Wait):
            found[title] = str(decision.reason)
    return found


@pytest.mark.parametrize("version", [X, SIGS])
def test_a_job_without_a_queue_goes_by_the_quota_of_its_namespace(version: str) -> None:
    made = world(
        tree(), queue(), quota(version=version, min={"cpu": 4}, max={"cpu": 4}), unnamed("a", 4), unnamed("b", 1)
    )
    assert not made.faults
    assert decided(made) == {"a": "admitted by elastic-quota.default", "b": "WaitingForQuota"}


def test_one_that_names_a_queue_does_not() -> None:
    assert decided(world(tree(), queue(), quota(max={"cpu": 0}), job("a", 1))) == {"a": "admitted by q"}


def test_of_two_the_older_one_holds_and_the_other_is_named() -> None:
    first = quota("b", max={"cpu": 1}) | {
        "metadata": {"name": "b", "namespace": "default", "creationTimestamp": "2025-01-01T00:00:00Z"}
    }
    second = quota("a", version=SIGS) | {
        "metadata": {"name": "a", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    }
    made = world(tree(), second, first)
    assert [(f.object, f.message) for f in made.faults] == [
        ("ElasticQuota default/a", "not taken: a namespace has one elastic quota, and another one is older")
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"min": {"cpu": 2}, "max": {"cpu": 1}}, "must not be more than spec.max[cpu], 1", id="order"),
        pytest.param({"min": {"cpu": -1}}, "must not be negative", id="negative"),
        pytest.param({"min": {"cpu": "much"}}, "must be a quantity", id="no quantity"),
        pytest.param({"min": "much"}, "spec.min", id="no list"),
    ],
)
def test_a_bad_one_is_named(spec: dict[str, Any], message: str) -> None:
    made = world(tree(), queue(), quota(**spec), job("a", 1))
    [fault] = made.faults
    assert fault.object == "ElasticQuota default/quota"
    assert message in fault.message
    assert decided(made) == {"a": "admitted by q"}


def test_queues_that_stand_in_the_files_are_taken_as_they_are() -> None:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "tas", "resources": [{"name": "cpu", "nominalQuota": 0}]}],
    }
    own = manifest("ClusterQueue", "elastic-quota.default", spec={"namespaceSelector": {}, "resourceGroups": [group]})
    assert decided(world(tree(), own, quota(min={"cpu": 4}), unnamed("a", 1))) == {"a": "ExceedsMaxQuota"}
