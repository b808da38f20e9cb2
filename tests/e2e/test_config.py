"""config/default on the real API server: it is taken as it is, gives each process its rights and no more, and a
webhook that is down (here: none runs) stops nobody but those who asked for us."""

from __future__ import annotations

import itertools
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hack.controlplane.api import eventually
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.errors import RequestError
from hack.controlplane.options import ClusterOptions
from tests.hack import objects
from tests.hack.rights import ALLOWED, DENIED, Right

CONTROL_PLANE = ClusterOptions(kwok=False, scheduler=False, controller_manager=False)
PROJECT = Path(__file__).resolve().parents[2]
NOT_SERVED = (
    "kustomization.yaml",
    "jobset-prefer.yaml",
    "kubeflow.yaml",
    "leaderworkerset.yaml",
    "mpijob.yaml",
    "raycluster.yaml",
    "raycluster-elastic.yaml",
    "rayjob.yaml",
    "trainjob.yaml",
    "appwrapper.yaml",
    "sparkapplication.yaml",
    "by-pods.yaml",
)
"""Of the samples: their kinds are not installed here."""
QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    """The cluster with config/default applied the way the README says."""
    cluster.kubectl("apply", "-k", str(PROJECT / "config" / "default"))
    return cluster


def allowed(cluster: ControlPlane, right: Right) -> bool:
    """What the authorizer says about one of our ServiceAccounts."""
    review = cluster.api.create(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:stowage-system:{right.account}",
                "resourceAttributes": right.asked(),
            },
        },
    )
    return bool(review["status"]["allowed"])


def job(name: str, **metadata: Any) -> dict[str, Any]:
    """A Job of one pod."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {"template": {"spec": pod}},
    }


def in_namespace(cluster: ControlPlane, name: str, **labels: str) -> str:
    """Make a namespace; the path of its Jobs."""
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    return f"/apis/batch/v1/namespaces/{name}/jobs"


def refusal(error: RequestError) -> str:
    message: str = json.loads(error.body)["message"]
    return message


@pytest.mark.parametrize("right", ALLOWED, ids=str)
def test_a_process_may(installed: ControlPlane, right: Right) -> None:
    assert allowed(installed, right)


@pytest.mark.parametrize("right", DENIED, ids=str)
def test_a_process_may_not(installed: ControlPlane, right: Right) -> None:
    assert not allowed(installed, right)


def test_applying_again_leaves_the_certificates_alone(installed: ControlPlane) -> None:
    path = "/api/v1/namespaces/stowage-system/secrets/stowage-webhook-server-cert"
    hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/stowage-mutating-webhook-configuration"
    installed.api.merge(path, {"data": {"tls.crt": "Yw=="}})
    found = installed.api.get(hooks)
    for hook in found["webhooks"]:
        hook["clientConfig"]["caBundle"] = _some_ca(installed)
    installed.api.request("PUT", hooks, found)
    installed.kubectl("apply", "-k", str(PROJECT / "config" / "default"))
    assert installed.api.get(path)["data"] == {"tls.crt": "Yw=="}
    assert all(hook["clientConfig"].get("caBundle") for hook in installed.api.get(hooks)["webhooks"])


_LEASE = ("get", "lease", "any", "-n", "stowage-system")
_PODS = ("get", "pods", "-n", "default")


@pytest.mark.parametrize(
    ("account", "asked", "level"),
    [
        pytest.param("stowage-controller", _PODS, "stowage", id="controller"),
        pytest.param("stowage-ungater", _PODS, "stowage", id="ungater"),
        pytest.param("stowage-webhook", _PODS, "stowage", id="webhook"),
        pytest.param("stowage-controller", _LEASE, "leader-election", id="lease-of-the-controller"),
        pytest.param("stowage-ungater", _LEASE, "leader-election", id="lease-of-the-ungater"),
        pytest.param("other", _PODS, "workload-low", id="any-other-account"),
    ],
)
def test_our_requests_have_seats_of_their_own(
    installed: ControlPlane, account: str, asked: tuple[str, ...], level: str
) -> None:
    """A tenant that floods the API server fills the seats of `workload-low`, not ours."""
    if account == "other":
        installed.kubectl("create", "serviceaccount", account, "-n", "stowage-system")
    kubeconfig = installed.service_account("stowage-system", account)

    def answered_at() -> str:
        told = installed.try_kubectl(f"--kubeconfig={kubeconfig}", *asked, "-v=8").stderr
        found = re.search(r"X-Kubernetes-Pf-Prioritylevel-Uid: (\S+)", told, re.IGNORECASE)
        return found.group(1) if found else told

    uid = installed.api.get(f"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/{level}")["metadata"][
        "uid"
    ]
    # The API server takes up new FlowSchemas by a watch.
    assert eventually(f"{account} is served by {level}", lambda: uid in answered_at())


def _some_ca(cluster: ControlPlane) -> str:
    found: str = cluster.kubectl(
        "config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}"
    )
    return found


def test_without_webhook_a_job_that_names_no_queue_is_made_and_changed(installed: ControlPlane) -> None:
    jobs = in_namespace(installed, "stranger")
    made = installed.api.create(jobs, job("plain", labels={"app": "x"}))
    installed.api.merge(f"{jobs}/plain", {"metadata": {"labels": {"app": "y"}}, "spec": {"suspend": True}})
    pod = {**made["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "plain", "labels": {"app": "x"}}
    assert installed.api.create("/api/v1/namespaces/stranger/pods", pod), "neither queue nor gang: none of ours"


@pytest.mark.parametrize("namespace", ["kube-system", "stowage-system"])
def test_without_webhook_exempt_namespaces_go_on(installed: ControlPlane, namespace: str) -> None:
    assert installed.api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job("exempt", labels=QUEUE))


@pytest.mark.parametrize(
    ("plural", "kind", "spec", "both", "of_one"),
    [
        (
            "podgroups", "PodGroup", {"minMember": 2}, ("podgroups", "gangs"),
            {"scheduling.x-k8s.io": ("podgroup", "pg", "pgs"), "scheduling.sigs.k8s.io": ("spg",)},
        ),
        (
            "elasticquotas", "ElasticQuota", {"max": {"cpu": "1"}}, ("elasticquotas", "quotas"),
            {"scheduling.x-k8s.io": ("elasticquota", "eq", "eqs"), "scheduling.sigs.k8s.io": ("seq",)},
        ),
    ],
)  # fmt: skip
def test_kubectl_shows_what_lives_in_both_groups(
    installed: ControlPlane,
    tmp_path: Path,
    plural: str,
    kind: str,
    spec: Any,
    both: tuple[str, ...],
    of_one: dict[str, tuple[str, ...]],
) -> None:
    """The plural lists both groups; after the singular, a short name or a name with the group comes an object's name."""
    caches = itertools.count()
    for group in of_one:
        made = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": group}, "spec": spec}
        installed.api.create(f"/apis/{group}/v1alpha1/namespaces/kube-system/{plural}", made)
    wanted = [f"{kind.lower()}.{group}/{group}" for group in sorted(of_one)]

    def fresh() -> tuple[str, ...]:
        """No cache of before the CRDs were served, which lacks their names."""
        return (f"--cache-dir={tmp_path / str(next(caches))}",)

    def listed(typed: str) -> bool:
        answer = installed.try_kubectl(*fresh(), "get", typed, "-n", "kube-system", "-o", "name")
        return answer.stdout.split() == wanted

    for typed in both:
        eventually(f"get {typed} lists {wanted}", partial(listed, typed))
    for group, words in of_one.items():
        cache = fresh()
        printed = f"{kind.lower()}.{group}/{group}"
        by_word = (arguments for word in words for arguments in ((word,), (word, group), (f"{word}/{group}",)))
        for arguments in (*by_word, (f"{plural}.{group}", group), (printed,)):
            answer = installed.kubectl(*cache, "get", *arguments, "-n", "kube-system", "-o", "name")
            assert answer.split() == [printed], arguments


def test_without_webhook_a_queued_job_waits_for_it(installed: ControlPlane) -> None:
    jobs = in_namespace(installed, "queued")
    with pytest.raises(RequestError) as caught:
        installed.api.create(jobs, job("queued", labels=QUEUE))
    assert 'failed calling webhook "mjob.stowage.dev"' in refusal(caught.value)


def test_an_opted_in_namespace_asks_for_jobs_without_queue_too(installed: ControlPlane) -> None:
    jobs = in_namespace(installed, "opted-in", **{"kueue.x-k8s.io/managed-namespace": "true"})
    with pytest.raises(RequestError) as caught:
        installed.api.create(jobs, job("unnamed"))
    assert 'failed calling webhook "mjob-default-queue.stowage.dev"' in refusal(caught.value)


def test_naming_a_queue_later_is_judged_and_a_status_is_not(installed: ControlPlane) -> None:
    jobs = in_namespace(installed, "later")
    installed.api.create(jobs, job("later"))
    installed.api.merge(f"{jobs}/later/status", {"status": {"active": 1}})
    with pytest.raises(RequestError) as caught:
        installed.api.merge(f"{jobs}/later", {"metadata": {"labels": QUEUE}})
    assert 'failed calling webhook "vjob.stowage.dev"' in refusal(caught.value)


def test_our_controller_writes_workloads_without_a_round_trip(installed: ControlPlane) -> None:
    workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
    with pytest.raises(RequestError, match=r"workload\.stowage\.dev"):
        installed.api.create(workloads, objects.workload("mine"))
    account = installed.service_account("stowage-system", "stowage-controller")
    told = installed.try_kubectl(
        f"--kubeconfig={account}", "create", "-f", "-", stdin=json.dumps(objects.workload("ours"))
    )
    assert told.returncode == 0, told.stderr


def test_samples_are_taken(installed: ControlPlane) -> None:
    """The server checks them against schemas and rules; the webhooks, which are down, are taken out of the way first."""
    for kind in ("mutating", "validating"):
        installed.kubectl("delete", f"{kind}webhookconfiguration", f"stowage-{kind}-webhook-configuration")
    samples = PROJECT / "config" / "samples"
    installed.kubectl("apply", "--dry-run=server", "-k", str(samples))
    files = sorted(file for file in samples.glob("*.yaml") if file.name not in NOT_SERVED)
    assert len(files) > len(NOT_SERVED)
    installed.kubectl("apply", "--dry-run=server", *(f"--filename={file}" for file in files))


def test_development_is_taken(new_cluster: Any) -> None:
    bare = new_cluster(CONTROL_PLANE)
    bare.kubectl("apply", "-k", str(PROJECT / "config" / "development"))
    hooks = bare.api.get("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")["items"][0][
        "webhooks"
    ]
    assert {hook["clientConfig"]["url"].split("/")[2] for hook in hooks} == {"127.0.0.1:9443"}
