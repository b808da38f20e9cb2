"""Faults of an installation, one a row, with the check that names each. What makes a fault is called with the `Kubelet`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from admission.cli.local_cluster.install import CONFIG
from api.names import (
    GROUP,
    HOSTNAME_LABEL,
    MANAGED_LABEL,
    PODSET_LABEL,
    STOWAGE,
    TOPOLOGY_WORKLOAD,
    WORKLOAD_ANNOTATION,
)
from tests.builders import pod_template
from tests.e2e.doctor_site import OURS, Kubelet, Obj, kueue
from tests.scenarios.site import BLOCK, RACK, eventually

Breaks = Callable[[Kubelet], Any]


def kubectl(*words: str, stdin: str | None = None) -> Breaks:
    return lambda kubelet: kubelet.cluster.kubectl(*words, stdin=stdin)


def patch(kind: str, name: str, body: Any, *words: str) -> Breaks:
    how = "json" if isinstance(body, list) else "merge"
    return kubectl("patch", kind, name, f"--type={how}", "-p", json.dumps(body), *words)


def label(name: str, *words: str) -> Breaks:
    return kubectl("label", "--overwrite", "node", name, *words)


async def crash(kubelet: Kubelet) -> None:
    await kubelet.stage.processes.crash("webhook")


async def stop(kubelet: Kubelet) -> None:
    kubelet.cluster.kubectl("scale", "-n", OURS, "deployment/stowage-webhook", "--replicas=0")
    await kubelet.catch_up()

    async def gone() -> bool:
        said = kubelet.cluster.kubectl("get", "-n", OURS, "deployment/stowage-webhook", "-o", "json")
        return not json.loads(said)["status"].get("availableReplicas")

    await eventually("the webhook's pods are gone", gone)


STRANGER = {"name": "stranger", "namespace": "default"}
FOREIGN_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": STRANGER,
    "spec": {**pod_template()["spec"], "nodeName": "n0", "tolerations": [{"operator": "Exists"}]},
}
OWNER = {"apiVersion": "example.com/v1", "kind": "Gone", "name": "gone", "uid": "0-0-0", "controller": True}
LEFTOVER = kueue(
    "Workload", "left", {"queueName": "research", "podSets": [{"name": "main", "count": 1, "template": pod_template()}]}
)
LEFTOVER["metadata"] |= {"namespace": "default", "ownerReferences": [OWNER]}
TRAIN_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trains.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Train", "plural": "trains", "singular": "train", "listKind": "TrainList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
TRAIN = {
    "apiVersion": "example.com/v1",
    "kind": "Train",
    "metadata": {"name": "t", "namespace": "default", "labels": {f"{GROUP}/queue-name": "research"}},
}
KUEUE: Obj = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kueue-controller-manager", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "kueue"}},
        "template": {
            "metadata": {"labels": {"app": "kueue"}},
            "spec": {"containers": [{"name": "manager", "image": "kueue"}]},
        },
    },
}


def creates(*objects: Obj) -> Breaks:
    return kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(copy.deepcopy(list(objects))))


def disguise(kubelet: Kubelet) -> None:
    """A foreign pod with all marks of the pods of the job that runs."""
    listed = json.loads(kubelet.cluster.kubectl("get", "workloads", "-n", "default", "-o", "json"))["items"]
    (name,) = (
        one["metadata"]["name"]
        for one in listed
        if [owner["name"] for owner in one["metadata"].get("ownerReferences") or ()] == ["run"]
    )
    marks = {
        "labels": {PODSET_LABEL: "main", MANAGED_LABEL: "true"},
        "annotations": {WORKLOAD_ANNOTATION: name, TOPOLOGY_WORKLOAD: name},
    }
    creates({**FOREIGN_POD, "metadata": {**STRANGER, "name": "disguised"}})(kubelet)
    # A new pod without an owner that is queued would be refused; the administrator may mark one that is there.
    patch("pod", "disguised", {"metadata": marks}, "-n", "default")(kubelet)


def unguarded(*objects: Obj) -> Breaks:
    """Creates objects while nobody has the API server ask the webhook."""
    resource = f"mutatingwebhookconfiguration/{MUTATING}"

    def change(kubelet: Kubelet) -> None:
        stored = json.loads(kubelet.cluster.kubectl("get", resource, "-o", "json"))
        kubelet.cluster.kubectl("delete", resource)
        creates(*objects)(kubelet)
        meta = {key: stored["metadata"][key] for key in ("name", "labels")}
        kubelet.cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump({**stored, "metadata": meta}))

    return change


def devices(**amounts: int) -> Breaks:
    """The nodes report so many devices."""

    def change(kubelet: Kubelet) -> None:
        for name, amount in amounts.items():
            status = {name_: {"nvidia.com/gpu": str(amount)} for name_ in ("capacity", "allocatable")}
            patch("node", name, {"status": status}, "--subresource=status")(kubelet)

    return change


def levels(*steps: tuple[str, ...]) -> Breaks:
    """The Topology gets these levels, one list after the other: the webhook lets them be added and removed only."""

    def change(kubelet: Kubelet) -> None:
        for keys in steps:
            patch("topology", "racks", {"spec": {"levels": [{"nodeLabel": key} for key in keys]}})(kubelet)

    return change


async def declares(kubelet: Kubelet) -> None:
    creates(TRAIN_CRD)(kubelet)
    kubelet.cluster.kubectl("wait", "--for=condition=Established", "crd/trains.example.com")
    creates(TRAIN)(kubelet)


async def unset_ca(kubelet: Kubelet) -> None:
    """Of a CRD that no dry run needs; the webhook looks after its CA once an hour, until it is started anew."""
    child = kubelet.stage.processes.children["webhook"]
    before = child.environment
    child.environment = {**before, "STOWAGE_WEBHOOK__CERTIFICATE_PERIOD": "3600"}
    await child.stop()
    await kubelet.stage.processes.restart("webhook")
    child.environment = before
    conversion = {"webhook": {"clientConfig": {"caBundle": None}}}
    patch("crd", f"workloadpriorityclasses.{GROUP}", {"spec": {"conversion": conversion}})(kubelet)


def config(addition: str) -> Breaks:
    """Adds to the settings of controller and webhook."""

    def change(kubelet: Kubelet) -> None:
        names = kubelet.cluster.kubectl("get", "cm", "-n", OURS, "-o", "name").split()
        name = next(each for each in names if "stowage-config" in each)
        text = json.loads(kubelet.cluster.kubectl("get", "-n", OURS, name, "-o", "json"))["data"]["admission.yaml"]
        body = json.dumps({"data": {"admission.yaml": f"{text}\n{addition}\n"}})
        kubelet.cluster.kubectl("patch", "-n", OURS, name, "--type=merge", "-p", body)

    return change


MUTATING = "stowage-mutating-webhook-configuration"
QUEUED_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "slipped", "namespace": "default", "labels": {f"{GROUP}/queue-name": "research"}},
    "spec": {**pod_template()["spec"], "nodeName": "n5"},
}
MISSPELT = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "misspelt", "namespace": "default", "labels": {f"{GROUP}/queue-name": "reserch"}},
    "spec": {"template": pod_template()},
}
UNCHECKED = {"admissionChecks": [{"name": "machines"}]}
TEAM_A = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
NEVER = {"name": "never", "expression": "false"}
FIRST_QUOTA = "/spec/resourceGroups/0/flavors/0"
HELD = {"spec": {"holderIdentity": "ghost", "leaseDurationSeconds": 3600}}
CASES = [
    pytest.param(
        kubectl("delete", "crd", "jobkinds.stowage.dev"),
        "crds",
        "CustomResourceDefinition jobkinds.stowage.dev",
        id="a CRD is missing",
    ),
    pytest.param(stop, "deployments", "Deployment stowage-webhook", id="a Deployment has no replicas"),
    pytest.param(crash, "webhook-answers", "webhook stowage-webhook", id="the webhook does not answer"),
    pytest.param(
        kubectl("delete", "validatingwebhookconfiguration", "stowage-validating-webhook-configuration"),
        "webhook-configurations",
        "ValidatingWebhookConfiguration stowage-validating-webhook-configuration",
        id="a webhook configuration is missing",
    ),
    pytest.param(
        kubectl(
            "patch",
            "validatingwebhookconfiguration",
            "stowage-validating-webhook-configuration",
            "--type=json",
            "-p",
            '[{"op": "add", "path": "/webhooks/0/namespaceSelector", "value": {"matchLabels": {"team": "a"}}}]',
        ),
        "webhook-configurations",
        "ValidatingWebhookConfiguration stowage-validating-webhook-configuration",
        id="the namespaceSelector of a webhook is edited",
    ),
    pytest.param(
        patch(
            "mutatingwebhookconfiguration",
            MUTATING,
            [
                {"op": "add", "path": "/webhooks/0/matchConditions/-", "value": NEVER},
            ],
        ),
        "webhook-configurations",
        f"MutatingWebhookConfiguration {MUTATING}",
        id="a webhook is asked about nothing",
    ),
    pytest.param(
        patch("validatingadmissionpolicybinding", "stowage-pods", {"spec": {"matchResources": TEAM_A}}),
        "policies",
        "ValidatingAdmissionPolicyBinding stowage-pods",
        id="the binding of a policy holds in one namespace",
    ),
    pytest.param(
        kubectl("delete", "validatingadmissionpolicybinding", "stowage-pods"),
        "policies",
        "ValidatingAdmissionPolicyBinding stowage-pods",
        id="the binding of a policy is missing",
    ),
    pytest.param(
        kubectl("delete", "clusterrolebinding", "stowage-ungater"),
        "rights",
        "ServiceAccount stowage-ungater",
        id="rights are missing",
    ),
    pytest.param(
        patch("lease", "stowage-ungater", HELD, "-n", OURS),
        "leases",
        "Lease stowage-ungater",
        id="a lease is held by a ghost",
    ),
    pytest.param(
        config("objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 1h}}"),
        "settings-contradict",
        "settings objectRetentionPolicies.workloads.afterDeactivatedByKueue",
        id="a setting lacks its rights",
    ),
    pytest.param(config("nosuch: 1"), "settings-contradict", "settings nosuch", id="a setting is unknown"),
    pytest.param(
        config("lease: {retryPeriod: soon, duration: 20}"),
        "settings-contradict",
        "settings lease.retryPeriod",
        id="a setting is invalid",
    ),
    pytest.param(
        creates(KUEUE), "other-controllers", "Deployment default/kueue-controller-manager", id="Kueue runs too"
    ),
    pytest.param(
        patch("clusterqueue", "services", [{"op": "replace", "path": f"{FIRST_QUOTA}/name", "value": "serv"}]),
        "queues-without-flavors",
        "ClusterQueue services",
        id="a queue names no flavor",
    ),
    pytest.param(label("n5", "serves-"), "flavors-without-nodes", "ResourceFlavor serve", id="a flavor has no node"),
    pytest.param(label("n0", f"{BLOCK}-"), "nodes-without-levels", "Node n0", id="a node has no block"),
    pytest.param(label("n1", f"{BLOCK}=b2"), "nodes-contradict", "Node n1", id="a rack is in two blocks"),
    pytest.param(creates(FOREIGN_POD), "foreign-pods", "Pod default/stranger", id="a foreign pod"),
    pytest.param(disguise, "foreign-pods", "Pod default/disguised", id="a foreign pod with the marks of a job's pods"),
    pytest.param(
        patch(
            "clusterqueue", "guests", [{"op": "add", "path": f"{FIRST_QUOTA}/resources/0/borrowingLimit", "value": "0"}]
        ),
        "cohorts-starve",
        "ClusterQueue guests",
        id="a queue may not borrow",
    ),
    pytest.param(creates(LEFTOVER), "leftover-workloads", "Workload default/left", id="a Workload is left over"),
    pytest.param(declares, "kinds-without-declaration", "Train default/t", id="a kind is not declared"),
    pytest.param(
        label("n3", "serves=others"), "flavors-overlap", "ResourceFlavor train", id="two flavors share a node"
    ),
    pytest.param(
        patch("crd", "jobkinds.stowage.dev", [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]),
        "crds",
        "CustomResourceDefinition jobkinds.stowage.dev",
        id="a version is not served",
    ),
    pytest.param(
        unset_ca,
        "webhook-certificates",
        f"CustomResourceDefinition workloadpriorityclasses.{GROUP}",
        id="a CRD has no CA",
    ),
    pytest.param(
        kubectl("delete", "clusterrole", "stowage-controller"),
        "rights",
        "ServiceAccount stowage-controller",
        id="a role is missing",
    ),
    pytest.param(
        patch("clusterqueue", "services", {"spec": {"resourceGroups": None}}),
        "queues-without-flavors",
        "ClusterQueue services",
        id="a queue has no flavor",
    ),
    pytest.param(
        creates(kueue("LocalQueue", "lost", {"clusterQueue": "none"}, namespace="default")),
        "queues-without-target",
        "LocalQueue default/lost",
        id="a LocalQueue leads nowhere",
    ),
    pytest.param(
        creates(kueue("ResourceFlavor", "late", {"nodeLabels": {"pool": "late"}, "topologyName": "late"})),
        "flavors-without-topology",
        "ResourceFlavor late",
        id="a flavor names no Topology",
    ),
    pytest.param(label("n2", f"{HOSTNAME_LABEL}=n1"), "nodes-contradict", "Node n2", id="two nodes have one hostname"),
    pytest.param(
        creates(
            kueue("Cohort", "left", {"parentName": "right"}),
            kueue("Cohort", "right", {"parentName": "left"}),
        ),
        "cohorts-cycle",
        "Cohort left",
        id="cohorts are each other's parents",
    ),
    pytest.param(
        creates(
            {
                "apiVersion": f"{STOWAGE}/v1alpha1",
                "kind": "JobKind",
                "metadata": {"name": "ghosts.example.com"},
                "spec": {
                    **yaml.safe_load((CONFIG / "samples" / "job-kind.yaml").read_text())["spec"],
                    "plural": "ghosts",
                    "kind": "Ghost",
                },
            }
        ),
        "jobkinds-inactive",
        "JobKind ghosts.example.com",
        id="a JobKind's kind is not served",
    ),
    pytest.param(
        unguarded(QUEUED_POD), "pods-without-admission", "Pod default/slipped", id="a pod runs that nobody admitted"
    ),
    pytest.param(
        patch(
            "clusterqueue",
            "services",
            [
                {"op": "add", "path": "/spec/resourceGroups/0/coveredResources/-", "value": "memori"},
                {
                    "op": "add",
                    "path": f"{FIRST_QUOTA}/resources/-",
                    "value": {"name": "memori", "nominalQuota": "1000"},
                },
            ],
        ),
        "quotas-without-resource",
        "ClusterQueue services",
        id="no node has a resource",
    ),
    pytest.param(
        patch(
            "clusterqueue",
            "services",
            [{"op": "replace", "path": f"{FIRST_QUOTA}/resources/0/nominalQuota", "value": "64000"}],
        ),
        "quotas-far-above-nodes",
        "ClusterQueue services",
        id="a quota is far above its nodes",
    ),
    pytest.param(
        patch(
            "clusterqueue",
            "guests",
            [{"op": "replace", "path": f"{FIRST_QUOTA}/resources/0/nominalQuota", "value": "128"}],
        ),
        "quotas-promise-too-much",
        "ResourceFlavor train",
        id="more is promised than there is",
    ),
    pytest.param(
        patch("clusterqueue", "services", {"spec": {"cohortName": "alle"}}),
        "cohorts-alone",
        "ClusterQueue services",
        id="a cohort's name refers to nothing",
    ),
    pytest.param(
        patch("clusterqueue", "services", {"spec": {"admissionChecksStrategy": UNCHECKED}}),
        "queues-without-checks",
        "ClusterQueue services",
        id="an admission check's name refers to nothing",
    ),
    pytest.param(
        creates(MISSPELT), "workloads-without-queue", "Job default/misspelt", id="a queue's name refers to nothing"
    ),
    pytest.param(
        levels((BLOCK, HOSTNAME_LABEL), (RACK, BLOCK, HOSTNAME_LABEL)),
        "levels-out-of-order",
        "Topology racks",
        id="levels are in the wrong order",
    ),
    pytest.param(
        devices(n0=0, n1=0, n2=0, n3=8), "nodes-without-devices", f"{RACK} r1", id="a rack's devices are gone"
    ),
]
"""Each leaves a site where nothing is wrong, if not the same."""
