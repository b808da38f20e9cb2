"""A job keeps what its creation or start wrote when its manifest is applied again: by Argo CD, Flux or kubectl."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.paths import value_at, with_value
from admission.integrations.podset import PodSetInfo
from admission.integrations.registry import ADAPTERS
from admission.webhook.endpoints import endpoint_of
from admission.webhook.review_request import UPDATE, Request
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import decode, review
from api.names import REQUIRE_TOPOLOGY
from tests.admission.integrations.samples import merged, sample
from tests.admission.webhook.server.test_review import body

Obj = dict[str, Any]
KINDS = [kind for kind in ADAPTERS if kind.framework != "pod"]
SUSPEND = ("spec", "suspend")
NOT_GATED = {
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "sparkoperator.k8s.io/sparkapplication",
}
"""A creation writes nothing into their templates: the sample has none, or their start is written elsewhere."""


def started(kind: Any, job: Obj) -> Obj:
    infos = [
        PodSetInfo(
            one.name,
            one.count,
            labels={"kueue.x-k8s.io/podset": one.name},
            annotations={"kueue.x-k8s.io/workload": "w"},
            node_selector={"pool": "gpus"},
            tolerations=({"key": "pool", "operator": "Exists"},),
            scheduling_gates=("kueue.x-k8s.io/topology",),
        )
        for one in kind.pod_sets(job)
    ]
    found: Obj = merged(job, kind.start(job, infos))
    return found


def applied(path: str, old: Obj, new: Obj) -> tuple[Obj, str]:
    """The object after the mutating and validating webhook, and what is refused."""
    changed = copy.deepcopy(new)
    request = decode(body(new, UPDATE, old))
    endpoint = endpoint_of(f"/mutate-{path}", request)
    assert endpoint.completes
    assert endpoint.updates
    endpoint.mutate(changed, request, Lookups(), ReviewRules())
    checked: Request = decode(body(changed, UPDATE, old))
    answer = review(f"/validate-{path}", checked, Lookups(), ReviewRules())["response"]
    return changed, "" if answer["allowed"] else str(answer["status"]["message"])


def created(path: str, manifest: Obj) -> Obj:
    """The object after the mutating webhook."""
    waiting = copy.deepcopy(manifest)
    request = decode(body(manifest))
    endpoint = endpoint_of(f"/mutate-{path}", request)
    assert endpoint.completes
    endpoint.mutate(waiting, request, Lookups(), ReviewRules())
    return waiting


def path_of(kind: Any) -> str:
    return {"batch/job": "batch-v1-job", "jobset.x-k8s.io/jobset": "jobset-x-k8s-io-v1alpha2-jobset"}.get(
        kind.framework, "declared-job"
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.framework)
def test_a_manifest_that_is_applied_again_takes_nothing_from_a_running_job(kind: Any) -> None:
    """The whole spec is replaced by that of the manifest, which is more than any tool does."""
    job = sample(kind)
    running = started(kind, job)
    suspend = kind.suspend if isinstance(kind, DeclaredJob) else SUSPEND
    again = with_value({**running, "spec": job["spec"]}, suspend, value_at(running, suspend))
    assert again != running
    assert applied(path_of(kind), running, again) == (running, "")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.framework)
def test_a_job_that_is_suspended_in_the_same_update_is_left_alone(kind: Any) -> None:
    job = sample(kind)
    running = started(kind, job)
    changed, _ = applied(path_of(kind), running, {**running, "spec": job["spec"]})
    assert changed["spec"] == job["spec"]
    waiting, _ = applied(path_of(kind), job, job)
    assert waiting == job


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.framework)
def test_a_manifest_that_is_applied_again_takes_no_gate_from_a_waiting_job(kind: Any) -> None:
    """The gates and annotations of the creation stay, as kubectl replaces the whole list of a JobSet's replicated jobs."""
    manifest = sample(kind)
    manifest["metadata"]["annotations"] = {REQUIRE_TOPOLOGY: "rack"}
    waiting = created(path_of(kind), manifest)
    again = {**waiting, "spec": manifest["spec"]}
    assert (again == waiting) is (kind.framework in NOT_GATED)
    assert applied(path_of(kind), waiting, again) == (waiting, "")


def test_what_is_changed_is_not_put_back() -> None:
    [kind] = [one for one in KINDS if one.framework == "kubeflow.org/pytorchjob"]
    running = started(kind, sample(kind))
    at = ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec")
    changed = with_value(running, (*at, "nodeSelector"), {"pool": "cpus"})
    changed = with_value(changed, (*at, "tolerations"), [{"key": "other"}])
    after, _ = applied("declared-job", running, changed)
    spec = value_at(after, at)
    assert spec["nodeSelector"]["pool"] == "cpus", "who names another node selector is judged by what it says"
    assert [one["key"] for one in spec["tolerations"]] == ["gpu", "pool", "other"]
