"""Views of a cluster with one fault each, by the check that names it and the command that mends it."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Callable
from typing import Any

from admission.doctor.pod_facts import PodFacts
from admission.doctor.question import Question
from admission.doctor.view import CONTROLLER, UNGATER, WEBHOOK, Unmanaged, View, name_of
from api.kube import resources as kinds
from api.meta import rfc3339
from api.names import HOSTNAME_LABEL
from tests.admission.doctor import healthy
from tests.admission.doctor.healthy import BLOCK, OURS, POOL, RACK, Obj, ca, flavor, lease, named
from tests.builders import NOW, condition

Objects = dict[kinds.Resource, list[Obj]]
Case = tuple[View, str, str]


def with_(change: Callable[[Objects], Any], **more: Any) -> View:
    """The healthy view after a change of its objects."""
    found = healthy.objects()
    change(found)
    return healthy.view(found, **more)


def of(objects: Objects, kind: kinds.Resource, name: str) -> Obj:
    return next(one for one in objects[kind] if name_of(one) == name)


def without(kind: kinds.Resource, name: str) -> View:
    def change(objects: Objects) -> None:
        objects[kind].remove(of(objects, kind, name))

    return with_(change)


def set_(kind: kinds.Resource, name: str, path: str, value: Any) -> View:
    """A field of one object with another value; None removes it."""

    def change(objects: Objects) -> None:
        *above, last = path.split("|")
        place = objects[kind].index(of(objects, kind, name))
        target: Any = copy.deepcopy(objects[kind][place])
        objects[kind][place] = target
        for part in above:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        if value is None:
            target.pop(last)
        elif isinstance(target, list):
            target[int(last)] = value
        else:
            target[last] = value

    return with_(change)


def add(kind: kinds.Resource, *listed: Obj, **more: Any) -> View:
    return with_(lambda objects: objects[kind].extend(listed), **more)


def settings(text: str, **more: Any) -> View:
    return with_(lambda objects: objects[kinds.CONFIG_MAPS][0]["data"].update({"admission.yaml": text}), **more)


def owned(kind: tuple[str, str], **more: Any) -> Obj:
    reference = {"apiVersion": f"{kind[0]}/v1", "kind": kind[1], "name": "train", "uid": "u1", "controller": True}
    return named("w", namespace="default", ownerReferences=[reference], **more)


def json_patch(queue_name: str, operation: dict[str, str]) -> str:
    """The command that applies one operation to a ClusterQueue."""
    return shlex.join(["kubectl", "patch", "clusterqueue", queue_name, "--type=json", "-p", json.dumps([operation])])


RIGHT = next(right for right in healthy.shipped().rights if right.account == UNGATER)
OWN_WEBHOOK = next(iter(healthy.shipped().webhooks.values()))["webhooks"][0]["name"]
JOB = ("batch", "Job")
FIRST = "/spec/resourceGroups/0/flavors/0"
QUOTA = "spec|resourceGroups|0|flavors|0|resources|0"
VALIDATING = "stowage-validating-webhook-configuration"
WORKLOADS_CRD = "workloads.kueue.x-k8s.io"
FIELDS = "spec|versions|1|schema|openAPIV3Schema|properties|spec|properties|podSets"
EXAMPLE = kinds.Resource("example.com", "v1", "trains", "Train")
STRIPPED = {"borrowingLimit": "0", "name": "cpu", "nominalQuota": "0"}


def starving() -> View:
    """research waits, guests borrow its quota."""

    def change(objects: Objects) -> None:
        resources = [{"name": "cpu", "total": "8", "borrowed": "8"}]
        of(objects, kinds.CLUSTER_QUEUES, "guests")["status"] = {
            "flavorsReservation": [{"name": "train", "resources": resources}]
        }
        of(objects, kinds.CLUSTER_QUEUES, "research")["status"] = {"pendingWorkloads": 3}

    return with_(change)


def unlent() -> View:
    def change(objects: Objects) -> None:
        of(objects, kinds.CLUSTER_QUEUES, "research")["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0][
            "lendingLimit"
        ] = "0"

    return with_(change)


def both_with_topologies(objects: Objects) -> None:
    of(objects, kinds.NODES, "n3")["metadata"]["labels"].update(serves="others")
    of(objects, kinds.NODES, "n4")["metadata"]["labels"].update({BLOCK: "b9", RACK: "r9"})
    of(objects, kinds.RESOURCE_FLAVORS, "serve")["spec"].update(topologyName="racks")


CREDITS = "resources: {transformations: [{input: cpu, strategy: Retain, outputs: {example.com/credits: 1}}]}"
DEVICE = "nvidia.com/gpu"


def add_quota(resource: str, amount: str, settings_: str = "") -> View:
    """research has quota of one more resource."""

    def change(objects: Objects) -> None:
        group = of(objects, kinds.CLUSTER_QUEUES, "research")["spec"]["resourceGroups"][0]
        group["coveredResources"].append(resource)
        group["flavors"][0]["resources"].append({"name": resource, "nominalQuota": amount})
        if settings_:
            objects[kinds.CONFIG_MAPS][0]["data"].update({"admission.yaml": settings_})

    return with_(change)


def give(objects: Objects, node: str, amount: str, device: str = DEVICE) -> None:
    """The node has so many devices."""
    of(objects, kinds.NODES, node)["status"]["allocatable"][device] = amount


def without_devices(objects: Objects, *gone: str) -> None:
    """Each node of train has 8 devices, these none."""
    for number in range(4):
        give(objects, f"n{number}", "0" if f"n{number}" in gone else "8")
    group = of(objects, kinds.CLUSTER_QUEUES, "research")["spec"]["resourceGroups"][0]
    group["coveredResources"].append(DEVICE)
    group["flavors"][0]["resources"].append({"name": DEVICE, "nominalQuota": "32"})


def misspelt(objects: Objects) -> None:
    without_devices(objects)
    group = of(objects, kinds.CLUSTER_QUEUES, "research")["spec"]["resourceGroups"][0]
    group["coveredResources"][1] = group["flavors"][0]["resources"][1]["name"] = "nvidia.com/gpus"


def out_of_service(objects: Objects) -> None:
    without_devices(objects, "n3")
    of(objects, kinds.NODES, "n3")["spec"] = {"unschedulable": True}


def asking(queue: str) -> Obj:
    """The waiting Workload of a Job."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    return named("w", {"queueName": queue, "podSets": []}, namespace="default", ownerReferences=[reference])


def reversed_levels(objects: Objects) -> None:
    levels = of(objects, kinds.TOPOLOGIES, "racks")["spec"]["levels"]
    levels[0], levels[1] = levels[1], levels[0]


def patched(kind: str, name: str, *change: Obj) -> str:
    """The command that applies these JSON operations."""
    return shlex.join(["kubectl", "patch", kind, name, "--type=json", "-p", json.dumps(list(change))])


def merged(kind: str, name: str, spec: Obj) -> str:
    return shlex.join(["kubectl", "patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec})])


def hook_patch(kind: kinds.Resource, field: str) -> str:
    """The command that writes a field of the first webhook as it is shipped."""
    wanted = next(each for each in healthy.shipped().webhooks.values() if each["kind"] == kind.kind)
    hook = wanted["webhooks"][0]
    change: Obj = {"path": f"/webhooks/0/{field}"}
    change = {"op": "add", **change, "value": hook[field]} if field in hook else {"op": "remove", **change}
    patch = json.dumps([{"op": "test", "path": "/webhooks/0/name", "value": hook["name"]}, change])
    return shlex.join(["kubectl", "patch", kind.kind.lower(), name_of(wanted), "--type=json", "-p", patch])


def levelled(*levels: str) -> str:
    return merged("topology", "racks", {"levels": [{"nodeLabel": level} for level in levels]})


STRATEGY = "admissionChecksStrategy"


def checked(name: str, *existing: str, flavors: list[str] | None = None) -> View:
    """A queue names an AdmissionCheck, for flavors if some are said; these checks exist."""

    def change(objects: Objects) -> None:
        rule = {"name": name, **({"onFlavors": flavors} if flavors else {})}
        of(objects, kinds.CLUSTER_QUEUES, "services")["spec"][STRATEGY] = {"admissionChecks": [rule]}
        objects[kinds.ADMISSION_CHECKS] = [named(each, {"controllerName": "example.com/c"}) for each in existing]

    return with_(change)


GROUP_0 = "/spec/resourceGroups/0"


CASES: dict[str, Case] = {
    "a pod runs that its queue should hold": (
        healthy.view(pods=[PodFacts("a", "p", "n4", queue="queue q")]),
        "pods-without-admission",
        "kubectl -n a delete pod p",
    ),
    "a pod of a set runs without its gate": (
        healthy.view(pods=[PodFacts("a", "s-0", "n4", queue="its statefulset")]),
        "pods-without-admission",
        "kubectl -n a delete pod s-0",
    ),
    "a resource is misspelt": (
        with_(misspelt),
        "quotas-without-resource",
        patched(
            "clusterqueue",
            "research",
            {"op": "replace", "path": f"{GROUP_0}/coveredResources/1", "value": DEVICE},
            {"op": "replace", "path": f"{GROUP_0}/flavors/0/resources/1/name", "value": DEVICE},
        ),
    ),
    "no node has a resource": (
        add_quota("example.com/tpu", "8"),
        "quotas-without-resource",
        patched(
            "clusterqueue",
            "research",
            {"op": "remove", "path": f"{GROUP_0}/coveredResources/1"},
            {"op": "remove", "path": f"{GROUP_0}/flavors/0/resources/1"},
        ),
    ),
    "a quota is far above its nodes": (
        set_(kinds.CLUSTER_QUEUES, "research", f"{QUOTA}|nominalQuota", "6400"),
        "quotas-far-above-nodes",
        json_patch("research", {"op": "replace", "path": f"{FIRST}/resources/0/nominalQuota", "value": "128"}),
    ),
    "quotas promise more than there is": (
        set_(kinds.CLUSTER_QUEUES, "guests", f"{QUOTA}|nominalQuota", "128"),
        "quotas-promise-too-much",
        json_patch("guests", {"op": "replace", "path": f"{FIRST}/resources/0/nominalQuota", "value": "85333m"})
        + " && "
        + json_patch("research", {"op": "replace", "path": f"{FIRST}/resources/0/nominalQuota", "value": "42666m"}),
    ),
    "a rack's devices are gone": (
        with_(lambda objects: without_devices(objects, "n0", "n1", "n2")),
        "nodes-without-devices",
        "kubectl cordon n0 n1 n2",
    ),
    "a node's devices are gone": (
        with_(lambda objects: without_devices(objects, "n1")),
        "nodes-without-devices",
        "kubectl cordon n1",
    ),
    "levels are in the wrong order": (
        with_(reversed_levels),
        "levels-out-of-order",
        f"{levelled(RACK, HOSTNAME_LABEL)} && {levelled(BLOCK, RACK, HOSTNAME_LABEL)}",
    ),
    "levels without hosts are in the wrong order": (
        set_(kinds.TOPOLOGIES, "racks", "spec|levels", [{"nodeLabel": level} for level in (RACK, BLOCK)]),
        "levels-out-of-order",
        f"# the levels of a Topology without {HOSTNAME_LABEL} are immutable: create one with the levels {BLOCK}, {RACK}, and",
    ),
    "a flavor's own levels are in the wrong order": (
        with_(
            lambda objects: of(objects, kinds.RESOURCE_FLAVORS, "train").update(
                spec={"nodeLabels": {POOL: "train"}, "topology": {"levels": [RACK, BLOCK, HOSTNAME_LABEL]}}
            )
        ),
        "levels-out-of-order",
        merged("resourceflavor", "train", {"topology": {"levels": [BLOCK, RACK, HOSTNAME_LABEL]}}),
    ),
    "a cohort's name is misspelt": (
        set_(kinds.CLUSTER_QUEUES, "services", "spec|cohortName", "alle"),
        "cohorts-alone",
        merged("clusterqueue", "services", {"cohortName": "all"}),
    ),
    "a cohort's name stands alone": (
        set_(kinds.CLUSTER_QUEUES, "services", "spec|cohortName", "elsewhere"),
        "cohorts-alone",
        merged("clusterqueue", "services", {"cohortName": None}),
    ),
    "a Cohort's parent is nothing": (
        add(kinds.COHORTS, named("all", {"parentName": "top"}) | {"kind": "Cohort"}),
        "cohorts-alone",
        merged("cohort", "all", {"parentName": None}),
    ),
    "an admission check's name is misspelt": (
        checked("machine", "machines"),
        "queues-without-checks",
        merged("clusterqueue", "services", {STRATEGY: {"admissionChecks": [{"name": "machines"}]}}),
    ),
    "the admission check of a queue does not exist": (
        checked("machines"),
        "queues-without-checks",
        merged("clusterqueue", "services", {STRATEGY: None}),
    ),
    "an admission check is for a flavor whose name is misspelt": (
        checked("machines", "machines", flavors=["servers"]),
        "queues-without-checks",
        merged(
            "clusterqueue", "services", {STRATEGY: {"admissionChecks": [{"name": "machines", "onFlavors": ["serve"]}]}}
        ),
    ),
    "an admission check is for no flavor of its queue": (
        checked("machines", "machines", flavors=["x"]),
        "queues-without-checks",
        f"# in spec.{STRATEGY} of the ClusterQueue services",
    ),
    "a job names a queue that does not exist": (
        add(kinds.WORKLOADS, asking("reserch"), owners={JOB: frozenset(("u1",))}),
        "workloads-without-queue",
        "kubectl -n default label --overwrite jobs.batch/train kueue.x-k8s.io/queue-name=research",
    ),
    "a CRD is missing": (
        without(kinds.CRDS, WORKLOADS_CRD),
        "crds",
        "kubectl apply --server-side --force-conflicts -f ",
    ),
    "a version is not served": (
        set_(kinds.CRDS, WORKLOADS_CRD, "spec|versions|1|served", False),
        "crds",
        "kubectl apply",
    ),
    "another version is stored": (
        set_(kinds.CRDS, WORKLOADS_CRD, "spec|versions|1|storage", False),
        "crds",
        "kubectl apply",
    ),
    "a CRD lacks a field": (set_(kinds.CRDS, WORKLOADS_CRD, FIELDS, None), "crds", "kubectl apply"),
    "a CRD does not convert": (
        set_(kinds.CRDS, WORKLOADS_CRD, "spec|conversion", {"strategy": "None"}),
        "crds",
        "kubectl apply",
    ),
    "a Deployment is missing": (without(kinds.DEPLOYMENTS, UNGATER), "deployments", "kubectl apply --server-side"),
    "a Deployment has no replicas": (
        set_(kinds.DEPLOYMENTS, WEBHOOK, "spec|replicas", 0),
        "deployments",
        f"kubectl -n {OURS} scale deployment/{WEBHOOK} --replicas=2",
    ),
    "no replica is available": (
        set_(kinds.DEPLOYMENTS, CONTROLLER, "status", {}),
        "deployments",
        f"kubectl -n {OURS} rollout restart deployment/{CONTROLLER}",
    ),
    "a process's pods find no node": (
        with_(
            lambda objects: of(objects, kinds.DEPLOYMENTS, CONTROLLER).update(status={}),
            held_up={f"{CONTROLLER}-7d-x": "is Pending: 0/5 nodes are available: 5 Insufficient memory."},
        ),
        "deployments",
        f"# a restart does not help: mend what the pod's events name: kubectl -n {OURS} describe pod {CONTROLLER}-7d-x",
    ),
    "no process has led": (without(kinds.LEASES, CONTROLLER), "leases", f"kubectl -n {OURS} rollout restart"),
    "a lease has run out": (
        set_(kinds.LEASES, UNGATER, "spec|renewTime", rfc3339(NOW - 100)),
        "leases",
        f"kubectl -n {OURS} rollout restart deployment/{UNGATER}",
    ),
    "a lease was given back and nobody took it": (
        set_(kinds.LEASES, UNGATER, "spec|holderIdentity", ""),
        "leases",
        "kubectl",
    ),
    "a lease is held for an hour": (
        set_(kinds.LEASES, UNGATER, "spec", {**lease(UNGATER)["spec"], "leaseDurationSeconds": 3600}),
        "leases",
        f"kubectl -n {OURS} delete lease {UNGATER}",
    ),
    "a webhook configuration is missing": (
        without(kinds.VALIDATING_WEBHOOKS, VALIDATING),
        "webhook-configurations",
        "kubectl apply",
    ),
    "a webhook is missing": (
        with_(lambda objects: objects[kinds.VALIDATING_WEBHOOKS][0]["webhooks"].pop()),
        "webhook-configurations",
        "kubectl apply",
    ),
    "a webhook lets all pass": (
        with_(lambda objects: objects[kinds.MUTATING_WEBHOOKS][0]["webhooks"][0].update(failurePolicy="Ignore")),
        "webhook-configurations",
        hook_patch(kinds.MUTATING_WEBHOOKS, "failurePolicy"),
    ),
    "a webhook's namespaceSelector is edited": (
        with_(
            lambda objects: objects[kinds.VALIDATING_WEBHOOKS][0]["webhooks"][0].update(
                namespaceSelector={"matchLabels": {"team": "a"}}
            )
        ),
        "webhook-configurations",
        hook_patch(kinds.VALIDATING_WEBHOOKS, "namespaceSelector"),
    ),
    "a webhook has a condition": (
        with_(
            lambda objects: objects[kinds.MUTATING_WEBHOOKS][0]["webhooks"][0].update(
                matchConditions=[{"name": "none", "expression": "false"}]
            )
        ),
        "webhook-configurations",
        hook_patch(kinds.MUTATING_WEBHOOKS, "matchConditions"),
    ),
    "a policy is missing": (without(kinds.POLICIES, "stowage-pods"), "policies", "kubectl apply"),
    "a policy's binding is missing": (without(kinds.POLICY_BINDINGS, "stowage-pods"), "policies", "kubectl apply"),
    "a policy's binding only warns": (
        set_(kinds.POLICY_BINDINGS, "stowage-pods", "spec|validationActions", ["Warn"]),
        "policies",
        "kubectl apply",
    ),
    "a policy's binding holds for one namespace": (
        set_(
            kinds.POLICY_BINDINGS,
            "stowage-pods",
            "spec|matchResources",
            {"namespaceSelector": {"matchLabels": {"a": "b"}}},
        ),
        "policies",
        "kubectl apply",
    ),
    "a policy lets errors pass": (
        set_(kinds.POLICIES, "stowage-configmaps", "spec|failurePolicy", "Ignore"),
        "policies",
        "kubectl apply",
    ),
    "a policy asks for nothing": (
        set_(kinds.POLICIES, "stowage-configmaps", "spec|validations", [{"expression": "true"}]),
        "policies",
        "kubectl apply",
    ),
    "the Service is missing": (without(kinds.SERVICES, WEBHOOK), "webhook-configurations", "kubectl apply"),
    "the webhook does not answer": (
        healthy.view(
            answers={Question.ADMISSION: "failed calling webhook: EOF", Question.CONVERSION: "conversion webhook: EOF"}
        ),
        "webhook-answers",
        f"kubectl -n {OURS} rollout restart deployment/{WEBHOOK}",
    ),
    "a webhook of others does not answer": (
        with_(
            lambda objects: objects[kinds.VALIDATING_WEBHOOKS].append(
                {
                    "metadata": {"name": "policies"},
                    "webhooks": [
                        {"name": "p.example.com", "clientConfig": {"service": {"namespace": "p", "name": "engine"}}}
                    ],
                }
            ),
            answers={Question.ADMISSION: 'failed calling webhook "p.example.com": EOF', Question.CONVERSION: ""},
        ),
        "webhook-answers",
        "# start the pods of Service p/engine, or: kubectl delete validatingwebhookconfiguration policies",
    ),
    "our own webhook does not answer": (
        healthy.view(
            answers={Question.ADMISSION: f'failed calling webhook "{OWN_WEBHOOK}": EOF', Question.CONVERSION: ""}
        ),
        "webhook-answers",
        f"kubectl -n {OURS} rollout restart deployment/{WEBHOOK}",
    ),
    "a CA expires that others issue": (
        with_(
            lambda objects: (
                objects[kinds.CONFIG_MAPS][0]["data"].update({"admission.yaml": "webhook: {certificates: Files}"}),
                objects[kinds.MUTATING_WEBHOOKS][0]["webhooks"][0]["clientConfig"].update(caBundle=ca(3)),
            )
        ),
        "webhook-certificates",
        "# webhook.certificates is Files: ",
    ),
    "a CA expires": (
        with_(
            lambda objects: objects[kinds.MUTATING_WEBHOOKS][0]["webhooks"][0]["clientConfig"].update(caBundle=ca(3))
        ),
        "webhook-certificates",
        f"kubectl -n {OURS} rollout restart deployment/{WEBHOOK}",
    ),
    "a CA is missing": (
        with_(lambda objects: objects[kinds.MUTATING_WEBHOOKS][0]["webhooks"][0]["clientConfig"].pop("caBundle")),
        "webhook-certificates",
        "kubectl",
    ),
    "a CA is no certificate": (
        with_(
            lambda objects: objects[kinds.MUTATING_WEBHOOKS][0]["webhooks"][0]["clientConfig"].update(caBundle="eA==")
        ),
        "webhook-certificates",
        "kubectl",
    ),
    "a right is missing": (
        healthy.view(refused=[RIGHT]),
        "rights",
        "kubectl apply --server-side --force-conflicts -f ",
    ),
    "a setting is unknown": (
        settings("nosuch: 1"),
        "settings-contradict",
        f"kubectl -n {OURS} patch configmap stowage-config-1 --type=merge -p ",
    ),
    "a setting is invalid": (
        settings("placement: {counting: Pairs}"),
        "settings-contradict",
        f"kubectl -n {OURS} patch configmap stowage-config-1 --type=merge -p ",
    ),
    "the settings are no YAML": (
        settings("{"),
        "settings-contradict",
        f"# correct admission.yaml: kubectl -n {OURS} edit configmap stowage-config-1; then kubectl -n {OURS} rollout restart",
    ),
    "the lease's durations contradict": (
        settings("lease: {duration: 5}"),
        "settings-contradict",
        f"kubectl -n {OURS} set env deployment/{WEBHOOK} deployment/{CONTROLLER} STOWAGE_LEASE__DURATION=15",
    ),
    "retention lacks its rights": (
        settings(
            "objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 1h}}",
            refused=list(healthy.shipped().retention),
        ),
        "settings-contradict",
        "kubectl apply --server-side -f ",
    ),
    "authentication lacks its rights": (
        settings(
            "healthAuthentication: true", refused=[r for r in healthy.shipped().metrics if r.resource == "tokenreviews"]
        ),
        "settings-contradict",
        "kubectl apply --server-side -f ",
    ),
    "priorities of tenants count everywhere": (
        settings("sakkara: {priorityAcrossNamespaces: true}"),
        "group-priorities",
        f"kubectl -n {OURS} set env",
    ),
    "topologies are switched off": (
        settings("featureGates: {TopologyAwareScheduling: false}"),
        "settings-contradict",
        f"kubectl -n {OURS} set env",
    ),
    "Kueue runs too": (
        add(kinds.DEPLOYMENTS, named("kueue-controller-manager", {"replicas": 1}, namespace="kueue-system")),
        "other-controllers",
        "kubectl -n kueue-system scale deployment/kueue-controller-manager --replicas=0",
    ),
    "Kueue's webhooks are there": (
        add(kinds.MUTATING_WEBHOOKS, named("kueue-mutating-webhook-configuration")),
        "other-controllers",
        "kubectl delete mutatingwebhookconfiguration kueue-mutating-webhook-configuration",
    ),
    "a flavor is missing": (
        set_(kinds.CLUSTER_QUEUES, "services", "spec|resourceGroups|0|flavors|0|name", "serv"),
        "queues-without-flavors",
        json_patch("services", {"op": "replace", "path": f"{FIRST}/name", "value": "serve"}),
    ),
    "a queue has no flavor": (
        set_(kinds.CLUSTER_QUEUES, "services", "spec|resourceGroups", []),
        "queues-without-flavors",
        "kubectl patch clusterqueue services --type=merge",
    ),
    "a LocalQueue leads nowhere": (
        set_(kinds.LOCAL_QUEUES, "research", "spec|clusterQueue", "gone"),
        "queues-without-target",
        "kubectl -n default delete localqueue research",
    ),
    "a flavor has no node": (
        set_(kinds.NODES, "n4", "metadata|labels", {}),
        "flavors-without-nodes",
        "kubectl label --overwrite nodes n4 serves=others",
    ),
    "a Topology is missing": (
        without(kinds.TOPOLOGIES, "racks"),
        "flavors-without-topology",
        """echo '{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "racks"}, "spec": """,
    ),
    "another Topology is missing": (
        add(kinds.RESOURCE_FLAVORS, flavor("late", {POOL: "train"}, topologyName="late")),
        "flavors-without-topology",
        "echo "
        + shlex.quote(
            json.dumps(
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "Topology",
                    "metadata": {"name": "late"},
                    "spec": {"levels": [{"nodeLabel": level} for level in (BLOCK, RACK, HOSTNAME_LABEL)]},
                }
            )
        )
        + " | kubectl apply --server-side -f -",
    ),
    "two flavors share a node": (
        with_(lambda objects: of(objects, kinds.NODES, "n3")["metadata"]["labels"].update(serves="others")),
        "flavors-overlap",
        "kubectl label --overwrite nodes n4 stowage.dev/flavor=serve && kubectl patch resourceflavor serve",
    ),
    "two flavors with topologies share a node": (
        with_(both_with_topologies),
        "flavors-overlap",
        f"kubectl label nodes n3 {POOL}-",
    ),
    "two flavors select the same": (
        with_(lambda objects: of(objects, kinds.RESOURCE_FLAVORS, "serve")["spec"].update(nodeLabels={POOL: "train"})),
        "flavors-overlap",
        "# one selects all nodes of the other",
    ),
    "a node lacks its block": (
        with_(lambda objects: of(objects, kinds.NODES, "n0")["metadata"]["labels"].pop(BLOCK)),
        "nodes-without-levels",
        f"kubectl label --overwrite nodes n0 {BLOCK}=b1",
    ),
    "a node lacks its rack": (
        with_(lambda objects: of(objects, kinds.NODES, "n0")["metadata"]["labels"].pop(RACK)),
        "nodes-without-levels",
        f"kubectl label --overwrite nodes n0 {RACK}=n0",
    ),
    "a rack is in two blocks": (
        with_(lambda objects: of(objects, kinds.NODES, "n1")["metadata"]["labels"].update({BLOCK: "b2"})),
        "nodes-contradict",
        f"kubectl label --overwrite nodes n1 {BLOCK}=b1",
    ),
    "two nodes have one hostname": (
        with_(lambda objects: of(objects, kinds.NODES, "n1")["metadata"]["labels"].update({HOSTNAME_LABEL: "n0"})),
        "nodes-contradict",
        f"kubectl label --overwrite nodes n1 {HOSTNAME_LABEL}=n1",
    ),
    "a foreign pod": (
        healthy.view(pods=[PodFacts("a", "p", "n0"), PodFacts("a", "q", "n4")]),
        "foreign-pods",
        "kubectl -n a delete pod p",
    ),
    "a queue may not borrow": (
        set_(kinds.CLUSTER_QUEUES, "guests", QUOTA, dict(STRIPPED)),
        "cohorts-starve",
        json_patch("guests", {"op": "remove", "path": f"{FIRST}/resources/0/borrowingLimit"}),
    ),
    "nobody lends": (
        unlent(),
        "cohorts-starve",
        json_patch("research", {"op": "remove", "path": f"{FIRST}/resources/0/lendingLimit"}),
    ),
    "nobody owns anything": (
        set_(kinds.CLUSTER_QUEUES, "services", f"{QUOTA}|nominalQuota", "0"),
        "cohorts-starve",
        json_patch("services", {"op": "replace", "path": f"{FIRST}/resources/0/nominalQuota", "value": "32"}),
    ),
    "others keep a queue's quota": (starving(), "cohorts-starve", "kubectl patch clusterqueue research --type=merge"),
    "cohorts are each other's parents": (
        add(kinds.COHORTS, named("all", {"parentName": "all"}, {"conditions": [condition("Active", "False")]})),
        "cohorts-cycle",
        "kubectl patch cohort all --type=merge",
    ),
    "an owner is gone": (
        add(kinds.WORKLOADS, owned(JOB), owners={JOB: frozenset(("u2",))}),
        "leftover-workloads",
        "kubectl -n default delete workload w",
    ),
    "an owner's kind is gone": (
        add(kinds.WORKLOADS, owned(("example.com", "Gone")), owners={("example.com", "Gone"): None}),
        "leftover-workloads",
        "kubectl -n default delete workload w",
    ),
    "a finalizer stays": (
        add(
            kinds.WORKLOADS,
            owned(JOB, deletionTimestamp=rfc3339(NOW - 600), finalizers=["x"]),
            owners={JOB: frozenset(("u1",))},
        ),
        "leftover-workloads",
        "kubectl -n default patch workload w",
    ),
    "a kind is not declared": (
        healthy.view(unmanaged=[Unmanaged(EXAMPLE, "a", "t", "Train names the queue q")]),
        "kinds-without-declaration",
        "kubectl -n a label trains.example.com t kueue.x-k8s.io/queue-name-",
    ),
    "a JobKind is not in use": (
        add(kinds.JOB_KINDS, named("trains", {}, {"conditions": [condition("Active", "False")]})),
        "jobkinds-inactive",
        "kubectl delete jobkind trains",
    ),
}
