"""The resources that Stowage uses: group, version, plural, kind, scope; and their URL paths.

Resources are not discovered at run time; only those in this table are requested. The client, the informers, the embedded API
server and the RBAC check read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from api.names import (
    COSCHEDULING,
    COSCHEDULING_SIGS,
    COSCHEDULING_VERSION,
    ELASTIC_GROUP,
    ELASTIC_SIGS_GROUP,
    ELASTIC_VERSION,
    GROUP,
    VERSION,
)


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects at the API server, in the one version that Stowage uses."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The apiVersion: `v1` for the core group, else `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Returns the URL path. A namespaced resource without a namespace means all namespaces (list and watch only).

        Raises ValueError for the name of a namespaced object without its namespace.

        >>> Resource("batch", "v1", "jobs", "Job").path("team", "train", "status")
        '/apis/batch/v1/namespaces/team/jobs/train/status'
        """
        parts = ["/apis" if self.group else "/api", self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        elif name and self.namespaced:
            raise ValueError(f"{self.plural} {name!r}: the namespace is missing, {self.kind} is a namespaced kind")
        parts.append(self.plural)
        parts += [quote(part, safe=":") for part in (name, subresource) if part]
        return "/".join(parts)


NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS: Final = Resource("", "v1", "events", "Event")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SERVICES: Final = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_CAPACITIES: Final = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_CLAIM_TEMPLATES: Final = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
POD_TEMPLATES: Final = Resource("", "v1", "podtemplates", "PodTemplate")

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
LEADER_WORKER_SETS: Final = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
JOB_KINDS: Final = Resource("stowage.dev", "v1alpha1", "jobkinds", "JobKind", namespaced=False)
ADVANCE_RESERVATIONS: Final = Resource(
    "stowage.dev", "v1alpha1", "advancereservations", "AdvanceReservation", namespaced=False
)
JOBSETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
API_SERVICES: Final = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)

POLICIES: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
POLICY_BINDINGS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)

WORKLOADS: Final = Resource(GROUP, VERSION, "workloads", "Workload")
LOCAL_QUEUES: Final = Resource(GROUP, VERSION, "localqueues", "LocalQueue")
CLUSTER_QUEUES: Final = Resource(GROUP, VERSION, "clusterqueues", "ClusterQueue", namespaced=False)
COHORTS: Final = Resource(GROUP, VERSION, "cohorts", "Cohort", namespaced=False)
RESOURCE_FLAVORS: Final = Resource(GROUP, VERSION, "resourceflavors", "ResourceFlavor", namespaced=False)
TOPOLOGIES: Final = Resource(GROUP, VERSION, "topologies", "Topology", namespaced=False)
ADMISSION_CHECKS: Final = Resource(GROUP, VERSION, "admissionchecks", "AdmissionCheck", namespaced=False)
WORKLOAD_PRIORITY_CLASSES: Final = Resource(
    GROUP, VERSION, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)

ELASTIC_QUOTAS: Final = Resource(ELASTIC_GROUP, ELASTIC_VERSION, "elasticquotas", "ElasticQuota")
SIGS_ELASTIC_QUOTAS: Final = Resource(ELASTIC_SIGS_GROUP, ELASTIC_VERSION, "elasticquotas", "ElasticQuota")
POD_GROUPS: Final = Resource(COSCHEDULING, COSCHEDULING_VERSION, "podgroups", "PodGroup")
SIGS_POD_GROUPS: Final = Resource(COSCHEDULING_SIGS, COSCHEDULING_VERSION, "podgroups", "PodGroup")

# Kinds to which users give a queue name, but whose pods or parts Stowage queues instead; never requested.
NOT_MANAGED: Final[Mapping[str, Resource]] = {
    "argoproj.io/workflow": Resource("argoproj.io", "v1alpha1", "workflows", "Workflow"),
    "disaggregatedset.x-k8s.io/disaggregatedset": Resource(
        "disaggregatedset.x-k8s.io", "v1", "disaggregatedsets", "DisaggregatedSet"
    ),
    "flux-framework.org/minicluster": Resource("flux-framework.org", "v1alpha2", "miniclusters", "MiniCluster"),
}

ALL: Final[tuple[Resource, ...]] = (
    NODES,
    PODS,
    NAMESPACES,
    EVENTS,
    SECRETS,
    CONFIG_MAPS,
    SERVICES,
    SERVICE_ACCOUNTS,
    LIMIT_RANGES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_CAPACITIES,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    POD_TEMPLATES,
    LEASES,
    PRIORITY_CLASSES,
    JOBS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    LEADER_WORKER_SETS,
    JOB_KINDS,
    ADVANCE_RESERVATIONS,
    JOBSETS,
    CRDS,
    API_SERVICES,
    VALIDATING_WEBHOOKS,
    MUTATING_WEBHOOKS,
    WORKLOADS,
    LOCAL_QUEUES,
    CLUSTER_QUEUES,
    COHORTS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
    ELASTIC_QUOTAS,
    SIGS_ELASTIC_QUOTAS,
    POD_GROUPS,
    SIGS_POD_GROUPS,
)
