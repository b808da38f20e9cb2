"""Each built-in kind with each kind of its parts: its own part belongs to it, and a forged one does not."""

from __future__ import annotations

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.registry import DECLARED
from api.job_kinds import ChildKind
from api.kube.resources import Resource
from api.workloads import PodSet
from tests.admission.integrations.samples import Object, sample, suspended, template

PAIRS = [(kind, child) for kind in DECLARED for child in kind.spec.children]
EACH = pytest.mark.parametrize(
    ("kind", "child"), PAIRS, ids=[f"{kind.resource.kind} {child.kind}" for kind, child in PAIRS]
)
WITHOUT_PARTS = {"JAXJob", "PaddleJob", "PyTorchJob", "SparkApplication", "TFJob", "XGBoostJob"}


def running(kind: DeclaredJob) -> Object:
    return suspended(kind, sample(kind), value=False)


def resource_of(child: ChildKind) -> Resource:
    group = "example.com" if child.group == "*" else child.group
    return Resource(group, "v1", "parts", "Part" if child.kind == "*" else child.kind)


def pods(count: int, cpu: str = "1") -> list[PodSet]:
    body = template()
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return [PodSet(name="main", count=count, template=body)]


def test_the_kinds_without_parts_are_these() -> None:
    assert {kind.resource.kind for kind in DECLARED if not kind.spec.children} == WITHOUT_PARTS


@EACH
def test_a_part_is_its_own_up_to_the_pods_of_the_job(kind: DeclaredJob, child: ChildKind) -> None:
    job = running(kind)
    most = max(kind.pods_of(job, entry) for entry in kind.entries(job))
    part = resource_of(child)
    assert kind.child_fault(part, pods(most), job) == ""
    assert f"has at most {most} pods in one pod set, not {most + 1}" in kind.child_fault(part, pods(most + 1), job)
    assert "of cpu" in kind.child_fault(part, pods(1, "64"), job)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.resource.kind)
def test_an_object_of_another_kind_is_no_part(kind: DeclaredJob) -> None:
    said = kind.child_fault(Resource("example.com", "v1", "strangers", "Stranger"), pods(1), running(kind))
    assert said == "" if any(child.kind == "*" for child in kind.spec.children) else said.startswith("has only pods")
