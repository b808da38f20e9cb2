"""What each process does at the API server, as rights: those it must have, and some that it must not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from admission.integrations.registry import DECLARED, REFERENCED_KINDS
from api.kube.resources import ALL

READ = ("get", "list", "watch")
OURS = "stowage-system"
KUEUE = "kueue.x-k8s.io"
SECRET = "stowage-webhook-server-cert"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource (`resource/subresource`), in a namespace (empty: all) and on a name (empty: any)."""

    account: str
    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def asked(self) -> dict[str, str]:
        """As a SubjectAccessReview asks for it."""
        resource, _, sub = self.resource.partition("/")
        given = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": sub,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {key: value for key, value in given.items() if value}

    def __str__(self) -> str:
        where = f" {self.namespace}/{self.name}".rstrip("/ ")
        return f"{self.account} {self.verb} {self.resource}{where}"


def _each(account: str, verbs: tuple[str, ...], *resources: str, group: str = "", **where: str) -> Iterator[Right]:
    for resource in resources:
        for verb in verbs:
            yield Right(account, verb, resource, group, **where)


CONTROLLER, UNGATER, WEBHOOK = "stowage-controller", "stowage-ungater", "stowage-webhook"
WRITE = ("update", "patch")

ALLOWED = [
    *_each(CONTROLLER, READ, "nodes", "pods", "namespaces", "limitranges", "resourcequotas"),
    *_each(CONTROLLER, READ, "runtimeclasses", group="node.k8s.io"),
    *_each(CONTROLLER, READ, "persistentvolumeclaims", "persistentvolumes"),
    *_each(
        CONTROLLER, READ, "storageclasses", "csinodes", "csidrivers", "csistoragecapacities", group="storage.k8s.io"
    ),
    *_each(CONTROLLER, READ, "resourceslices", "deviceclasses", "resourceclaimtemplates", group="resource.k8s.io"),
    *_each(CONTROLLER, ("patch",), "pods/status", namespace="a"),
    *_each(CONTROLLER, ("patch", "delete"), "pods", namespace="a"),
    *_each(CONTROLLER, READ, "priorityclasses", group="scheduling.k8s.io"),
    *_each(CONTROLLER, (*READ, "patch"), "jobs", group="batch", namespace="a"),
    *_each(CONTROLLER, (*READ, "patch"), "jobsets", group="jobset.x-k8s.io", namespace="a"),
    *(
        right
        for adapter in DECLARED
        for right in _each(
            CONTROLLER, (*READ, "patch"), adapter.resource.plural, group=adapter.resource.group, namespace="a"
        )
    ),
    *_each(CONTROLLER, READ, "statefulsets", group="apps", namespace="a"),
    *_each(CONTROLLER, READ, "leaderworkersets", group="leaderworkerset.x-k8s.io", namespace="a"),
    *(right for one in REFERENCED_KINDS for right in _each(CONTROLLER, READ[1:], one.plural, group=one.group)),
    *_each(CONTROLLER, ("update",), "statefulsets/finalizers", group="apps", namespace="a"),
    *_each(CONTROLLER, (*READ, "patch", "create", "delete"), "workloads", group=KUEUE, namespace="a"),
    *_each(CONTROLLER, ("patch",), "workloads/status", "localqueues/status", group=KUEUE, namespace="a"),
    *_each(CONTROLLER, ("patch",), "clusterqueues/status", "cohorts/status", group=KUEUE),
    *_each(
        CONTROLLER,
        READ,
        *("clusterqueues", "localqueues", "cohorts", "resourceflavors", "topologies"),
        *("admissionchecks", "workloadpriorityclasses"),
        group=KUEUE,
    ),
    *_each(CONTROLLER, ("patch",), "clusterqueues", "resourceflavors", "topologies", group=KUEUE),
    *(
        right
        for group in ("scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
        for right in (
            *_each(CONTROLLER, READ, "elasticquotas", group=group),
            *_each(CONTROLLER, ("patch",), "elasticquotas/status", group=group, namespace="a"),
            *_each(CONTROLLER, (*READ, "create", "delete"), "podgroups", group=group, namespace="a"),
            *_each(CONTROLLER, ("patch",), "podgroups/status", group=group, namespace="a"),
            *_each(WEBHOOK, READ, "elasticquotas", group=group),
        )
    ),
    *_each(CONTROLLER, READ, "advancereservations", "jobkinds", group="stowage.dev"),
    *_each(CONTROLLER, ("patch",), "advancereservations/status", "jobkinds/status", group="stowage.dev"),
    *_each(WEBHOOK, READ, "jobkinds", group="stowage.dev"),
    *_each(CONTROLLER, ("create", "delete"), "clusterqueues", "localqueues", group=KUEUE, namespace="a"),
    *_each(CONTROLLER, ("create",), "resourceflavors", group=KUEUE),
    *_each(CONTROLLER, ("patch",), "namespaces"),
    *_each(CONTROLLER, (*READ, "patch"), "configmaps", namespace="a"),
    *_each(CONTROLLER, ("create", "patch"), "events", namespace="a"),
    *_each(CONTROLLER, READ[1:], "events"),
    *_each(UNGATER, READ[1:], "persistentvolumeclaims"),
    *_each(UNGATER, READ[1:], "clusterqueues", group=KUEUE),
    *_each(UNGATER, READ, "workloads", group=KUEUE),
    *_each(UNGATER, (*READ, "patch"), "pods", namespace="a"),
    *_each(UNGATER, READ, "nodes"),
    *(
        right
        for account in (CONTROLLER, UNGATER)
        for right in (
            *_each(account, ("create",), "leases", group="coordination.k8s.io", namespace=OURS),
            *_each(account, ("get", *WRITE), "leases", group="coordination.k8s.io", namespace=OURS, name=account),
        )
    ),
    *_each(WEBHOOK, READ, "namespaces", "pods"),
    *_each(WEBHOOK, ("create", "patch"), "events", namespace="a"),
    *_each(WEBHOOK, ("get",), "jobs", group="batch", namespace="a"),
    *_each(WEBHOOK, ("get",), "jobsets", group="jobset.x-k8s.io", namespace="a"),
    *_each(WEBHOOK, ("get",), "deployments", "replicasets", "statefulsets", group="apps", namespace="a"),
    *_each(WEBHOOK, ("get",), "leaderworkersets", group="leaderworkerset.x-k8s.io", namespace="a"),
    *(
        right
        for adapter in DECLARED
        for right in _each(WEBHOOK, ("get",), adapter.resource.plural, group=adapter.resource.group, namespace="a")
    ),
    *_each(
        WEBHOOK,
        READ,
        *("localqueues", "clusterqueues", "resourceflavors", "topologies", "admissionchecks"),
        "workloadpriorityclasses",
        group=KUEUE,
    ),
    *_each(WEBHOOK, ("get", *WRITE), "secrets", namespace=OURS, name=SECRET),
    *_each(
        WEBHOOK,
        ("get", "patch"),
        "mutatingwebhookconfigurations",
        group="admissionregistration.k8s.io",
        name="stowage-mutating-webhook-configuration",
    ),
    *_each(
        WEBHOOK,
        ("get", "patch"),
        "validatingwebhookconfigurations",
        group="admissionregistration.k8s.io",
        name="stowage-validating-webhook-configuration",
    ),
    *(
        right
        for one in ALL
        if one.group == KUEUE
        for right in _each(
            WEBHOOK,
            ("get", "patch"),
            "customresourcedefinitions",
            group="apiextensions.k8s.io",
            name=f"{one.plural}.{KUEUE}",
        )
    ),
]

DENIED = [
    *(
        right
        for account in (CONTROLLER, UNGATER, WEBHOOK)
        for right in (
            *_each(account, ("create",), "pods", namespace="a"),
            *_each(account, ("create",), "pods/binding", namespace="a"),
            *_each(account, ("update", "patch", "delete"), "nodes"),
            *_each(account, ("get", "list"), "secrets", namespace="a"),
            *_each(account, ("create", "list"), "secrets", namespace=OURS),
            *_each(account, ("create", "delete"), "jobs", group="batch", namespace="a"),
            *_each(account, ("get",), "leases", group="coordination.k8s.io", namespace=OURS, name="another"),
            *_each(account, ("create",), "clusterroles", group="rbac.authorization.k8s.io"),
        )
    ),
    *_each(CONTROLLER, ("get",), "secrets", namespace=OURS, name=SECRET),
    *_each(CONTROLLER, ("create", "patch", "delete"), "elasticquotas", group="scheduling.x-k8s.io", namespace="a"),
    *_each(CONTROLLER, ("create", "delete"), "namespaces"),
    *_each(CONTROLLER, ("create", "delete"), "configmaps", namespace="a"),
    *_each(CONTROLLER, WRITE, "podgroups", group="scheduling.x-k8s.io", namespace="a"),
    *_each(UNGATER, ("delete",), "pods", namespace="a"),
    *_each(UNGATER, WRITE, "workloads", "workloads/status", group=KUEUE, namespace="a"),
    *_each(UNGATER, READ, "jobs", group="batch"),
    *_each(WEBHOOK, READ, "nodes"),
    *_each(WEBHOOK, READ, "events", namespace="a"),
    *_each(CONTROLLER, READ, "workflows", group="argoproj.io", namespace="a"),
    *_each(WEBHOOK, WRITE, "pods", namespace="a"),
    *_each(WEBHOOK, WRITE, "localqueues", "clusterqueues", "workloads", group=KUEUE, namespace="a"),
    *_each(
        WEBHOOK, ("patch",), "mutatingwebhookconfigurations", group="admissionregistration.k8s.io", name="somebody-else"
    ),
]
