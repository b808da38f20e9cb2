"""The built-in kinds of the embedded server, and the conversion of a CRD to a served kind.

Defines scope, versions, status subresource, generation, field selectors and rules of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from api.embedded.rules.base import StorageRules
from api.embedded.rules.cluster import CrdRules, NamespaceRules, PriorityClassRules, SecretRules, WebhookRules
from api.embedded.rules.jobs import JobRules
from api.embedded.rules.jobsets import JobSetRules
from api.embedded.rules.pods import PodRules
from api.embedded.schema import Schema
from api.embedded.status import Obj


class Ref(Protocol):
    """An object that names a resource: a ServedKind, or api.kube.resources.Resource."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A served resource."""

    group: str
    version: str  # the stored one
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    generation: bool = False
    unconditional: bool = True
    """Whether a PUT without resourceVersion is allowed."""
    custom: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: frozenset[str] = frozenset()
    rules: StorageRules = field(default_factory=StorageRules)
    versions: tuple[str, ...] = ()
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """Those of a CRD, by version."""

    @property
    def api_version(self) -> str:
        return self.in_version(self.version)

    @property
    def served(self) -> tuple[str, ...]:
        return self.versions or (self.version,)

    def in_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    @property
    def subresources(self) -> Iterator[str]:
        if self.status:
            yield "status"
        if (self.group, self.plural) == ("", "pods"):
            yield from ("binding", "eviction")

    def selectable(self, name: str) -> bool:
        """Reports whether a field selector may use this field."""
        return name == "metadata.name" or (name == "metadata.namespace" and self.namespaced) or name in self.fields


_POD_FIELDS = frozenset(
    f"spec.{name}" for name in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName", "hostNetwork")
) | frozenset(f"status.{name}" for name in ("phase", "podIP", "nominatedNodeName"))
_EVENT_FIELDS = frozenset(
    f"involvedObject.{name}"
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
) | frozenset(("reason", "reportingComponent", "source", "type"))

BUILTIN: tuple[ServedKind, ...] = (
    ServedKind("", "v1", "pods", "Pod", True, True, True, short_names=("po",), fields=_POD_FIELDS, rules=PodRules()),
    ServedKind("", "v1", "nodes", "Node", False, True, short_names=("no",), fields=frozenset(("spec.unschedulable",))),
    ServedKind(
        "", "v1", "namespaces", "Namespace", False, True,
        short_names=("ns",), fields=frozenset(("status.phase", "name")), rules=NamespaceRules(),
    ),
    ServedKind("", "v1", "events", "Event", short_names=("ev",), fields=_EVENT_FIELDS),
    ServedKind("", "v1", "secrets", "Secret", fields=frozenset(("type",)), rules=SecretRules()),
    ServedKind("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    ServedKind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    ServedKind("", "v1", "services", "Service", status=True, short_names=("svc",)),
    ServedKind("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    ServedKind("", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",)),
    ServedKind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    ServedKind("", "v1", "podtemplates", "PodTemplate"),
    ServedKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, True, short_names=("pvc",)),
    ServedKind("", "v1", "persistentvolumes", "PersistentVolume", False, True, short_names=("pv",)),
    ServedKind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short_names=("sc",)),
    ServedKind("storage.k8s.io", "v1", "csinodes", "CSINode", False),
    ServedKind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False),
    ServedKind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    ServedKind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False),
    ServedKind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False),
    ServedKind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    ServedKind("coordination.k8s.io", "v1", "leases", "Lease", unconditional=False),
    ServedKind(
        "batch", "v1", "jobs", "Job", True, True, True,
        fields=frozenset(("status.successful",)), rules=JobRules(),
    ),
    ServedKind(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, False, True,
        short_names=("pc",), rules=PriorityClassRules(),
    ),
    ServedKind("apps", "v1", "replicasets", "ReplicaSet", True, True, True, short_names=("rs",)),
    ServedKind("apps", "v1", "deployments", "Deployment", True, True, True, short_names=("deploy",)),
    ServedKind("apps", "v1", "statefulsets", "StatefulSet", True, True, True, short_names=("sts",)),
    ServedKind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, True, True, short_names=("pdb",)),
    *(
        ServedKind("rbac.authorization.k8s.io", "v1", f"{kind.lower()}s", kind, not kind.startswith("Cluster"))
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
    *(
        ServedKind(
            "admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, False,
            generation=True, unconditional=False, rules=WebhookRules(),
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
    ServedKind("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, True, unconditional=False),
    ServedKind(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, True, True,
        unconditional=False, short_names=("crd",), rules=CrdRules(),
    ),
    ServedKind(
        "jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True, True, True,
        unconditional=False, custom=True, rules=JobSetRules(),
    ),
    ServedKind(
        "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", True, True, True,
        unconditional=False, custom=True, short_names=("lws",),
    ),
)  # fmt: skip


def from_crd(crd: Obj, rules: StorageRules) -> ServedKind:
    """Returns the kind that a CustomResourceDefinition adds, with `rules` of a previous kind of that name, if any."""
    spec = crd["spec"]
    # Conversion webhooks are not supported: only the stored version of a kind that needs one is served.
    converts = (spec.get("conversion") or {}).get("strategy") == "Webhook"
    served = [each for each in spec["versions"] if each.get("served") and (each.get("storage") or not converts)]
    stored = next(version for version in spec["versions"] if version.get("storage"))
    fields = [item["jsonPath"].lstrip(".") for version in served for item in version.get("selectableFields") or ()]
    return ServedKind(
        group=spec["group"],
        version=stored["name"],
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
        status="status" in (stored.get("subresources") or {}),
        generation=True,
        unconditional=False,
        custom=True,
        short_names=tuple(spec["names"].get("shortNames") or ()),
        categories=tuple(spec["names"].get("categories") or ()),
        fields=frozenset(fields),
        rules=rules,
        versions=tuple(version["name"] for version in served),
        schemas={
            item["name"]: Schema.of((item.get("schema") or {}).get("openAPIV3Schema")) for item in spec["versions"]
        },
    )
