"""Every label, annotation, gate, finalizer, condition type and reason of the kueue.x-k8s.io API, grouped.

Nothing is decided here. Sources: the description of Kueue's API (objects, lifecycle, first forms).
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CONVERT_PATH: Final = "/convert"  # of the webhook process: other versions of the group's objects

# ---- labels on jobs, pods and workloads
QUEUE_NAME_LABEL: Final = f"{GROUP}/queue-name"
"""On jobs and pods: the LocalQueue."""
PRIORITY_CLASS_LABEL: Final = f"{GROUP}/priority-class"
"""On jobs and pods: the WorkloadPriorityClass."""
PREBUILT_WORKLOAD: Final = f"{GROUP}/prebuilt-workload-name"
"""On jobs and pods, label or annotation: a Workload that was made in advance."""
MAX_EXEC_TIME_LABEL: Final = f"{GROUP}/max-exec-time-seconds"
"""On jobs and pods: seconds after which the workload is deactivated."""
PODSET_LABEL: Final = f"{GROUP}/podset"
"""On pods: the pod set of the Workload."""
LOCAL_QUEUE_LABEL: Final = f"{GROUP}/local-queue-name"
"""On pods: the LocalQueue that admitted them."""
CLUSTER_QUEUE_LABEL: Final = f"{GROUP}/cluster-queue-name"
"""On pods: the ClusterQueue that admitted them."""
JOB_UID_LABEL: Final = f"{GROUP}/job-uid"
"""On Workloads: the UID of the job."""
MANAGED_LABEL: Final = f"{GROUP}/managed"
"""On plain pods that queue: "true"."""
POD_GROUP_INDEX_LABEL: Final = f"{GROUP}/pod-group-pod-index"
"""On pods: the rank in the group."""
POD_GROUP_NAME: Final = f"{GROUP}/pod-group-name"
"""On pods, label or annotation: the name of Kueue's pod group."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
"""On nodes: the host, the lowest level of most topologies."""
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""On pods of Jobs: the rank."""
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of spec.managedBy of Jobs that are left to Kubernetes."""
JOBSET_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
"""On pods of JobSets: the number of the child Job in its replicated job."""
STATEFULSET_POD_INDEX: Final = "apps.kubernetes.io/pod-index"
"""On pods of StatefulSets: the ordinal."""
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
"""On pods: the LeaderWorkerSet."""
LWS_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
"""On pods: the group of the LeaderWorkerSet."""
LWS_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""On pods: the rank in the group of the LeaderWorkerSet."""

# ---- annotations that a user writes
REQUIRE_TOPOLOGY: Final = f"{GROUP}/require-topology"
"""All pods of each pod set in one domain of that level, else the job waits."""
PREFER_TOPOLOGY: Final = f"{GROUP}/prefer-topology"
"""As few domains of that level as possible (a level, or `auto`)."""
AUTO_LEVEL: Final = "auto"
REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-required-topology"
"""On pod templates: as `require-topology`, in Kueue's words."""
PREFERRED_TOPOLOGY: Final = f"{GROUP}/podset-preferred-topology"
"""On pod templates: as `prefer-topology`, in Kueue's words."""
UNCONSTRAINED_TOPOLOGY: Final = f"{GROUP}/podset-unconstrained-topology"
"""On pod templates: anywhere in the topology, "true"."""
SLICE_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-slice-required-topology"
"""On pod templates: the level that holds each slice."""
SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
"""On pod templates: the pods of a slice."""
SLICE_CONSTRAINTS: Final = f"{GROUP}/podset-slice-required-topology-constraints"
"""On pod templates: levels and sizes of slices within slices, as JSON."""
PODSET_GROUP_NAME: Final = f"{GROUP}/podset-group-name"
"""On pod templates: pod sets that are placed together."""
POD_INDEX_OFFSET: Final = f"{GROUP}/pod-index-offset"
"""On pod templates: the index of the first pod."""
MIN_PARALLELISM: Final = f"{GROUP}/job-min-parallelism"
"""On Jobs: the fewest pods with which the Job may start."""
COMPLETIONS_EQUAL_PARALLELISM: Final = f"{GROUP}/job-completions-equal-parallelism"
"""On Jobs: completions follow parallelism when it starts with fewer pods."""
ELASTIC_JOB: Final = f"{GROUP}/elastic-job"
"""On jobs: "true" lets the job grow and shrink while it runs; on their Workloads likewise."""
REPLACEMENT_FOR: Final = f"{GROUP}/workload-slice-replacement-for"
"""On Workloads of elastic jobs: the key of the admitted Workload that this one takes the place of."""
ADMISSION_GATED_BY: Final = f"{GROUP}/admission-gated-by"
"""On jobs: names that must be removed before the job is considered."""
PRIORITY_BOOST: Final = f"{GROUP}/priority-boost"
"""On Workloads: added to the priority where `featureGates.PriorityBoost` is on."""

# ---- annotations of plain pods and their groups
POD_GROUP_TOTAL_COUNT: Final = f"{GROUP}/pod-group-total-count"
"""On pods: how many pods the group has."""
POD_GROUP_INDEX_SOURCE: Final = f"{GROUP}/pod-group-pod-index-label"
"""On pods: the label that holds the rank."""
POD_GROUP_FAST_ADMISSION: Final = f"{GROUP}/pod-group-fast-admission"
"""On pods: the group is admitted when its first pod is there, "true"."""
POD_GROUP_SERVING: Final = f"{GROUP}/pod-group-serving"
"""On pods: the group never ends, "true"."""
RETRIABLE_IN_GROUP: Final = f"{GROUP}/retriable-in-group"
"""On pods: failed pods of the group are not replaced, "false"."""
ROLE_HASH: Final = f"{GROUP}/role-hash"
"""On pods: the role, made from what the pod asks for."""
POD_SUSPENDING_PARENT: Final = f"{GROUP}/pod-suspending-parent"
"""On pods: the kind whose pods are held instead of it."""
IS_GROUP_WORKLOAD: Final = f"{GROUP}/is-group-workload"
"""On Workloads of pod groups: "true"."""
COMPONENT_INDEX: Final = f"{GROUP}/component-workload-index"
"""On Workloads: the group of the set that owns them."""

# A pod that carries one of these is counted by its workload's assignment, not as a foreign pod.
TAS_ANNOTATIONS: Final = (
    REQUIRED_TOPOLOGY,
    PREFERRED_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
    SLICE_REQUIRED_TOPOLOGY,
    SLICE_CONSTRAINTS,
)

# ---- annotations, labels and gates that Stowage writes on pod templates
WORKLOAD_ANNOTATION: Final = f"{GROUP}/workload"
"""On pods: their Workload."""
WORKLOAD_SLICE_NAME: Final = f"{GROUP}/workload-slice-name"
"""On pods, and on the later Workloads of an elastic job: the name of its first Workload."""
TOPOLOGY_WORKLOAD: Final = f"{GROUP}/topology-workload"
"""On pods: as `workload`, in the first form."""
TOPOLOGY_PODSET: Final = f"{GROUP}/topology-podset"
"""On pods: as the label `podset`, in the first form."""
TOPOLOGY_GATE: Final = f"{GROUP}/topology"
"""The scheduling gate that the ungater removes when the pod has its domain."""
ADMISSION_GATE: Final = f"{GROUP}/admission"
"""The scheduling gate of plain pods; removed when their Workload is admitted."""

ELASTIC_GATE: Final = ELASTIC_JOB
"""The scheduling gate of an elastic job's pods; removed from as many of them as are admitted."""

# ---- finalizers
IN_USE_FINALIZER: Final = f"{GROUP}/resource-in-use"
"""On Workloads, queues, flavors and topologies that are in use."""
MANAGED_FINALIZER: Final = f"{GROUP}/managed"
"""On plain pods: the pod's end has still to be counted."""
JOB_TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""On pods whose end the Job controller has still to count."""

# ---- workload condition types
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
FINISHED: Final = "Finished"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
PODS_READY: Final = "PodsReady"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"

# ---- condition type of queues, admission checks; and its reasons
ACTIVE: Final = "Active"
READY: Final = "Ready"


class LegacyQuotaReason:
    """Kueue's older reasons of QuotaReserved=False; Kueue gives them where UnadmittedWorkloadsObservability is off."""

    PENDING: Final = "Pending"
    """The scheduler has not found a place, or has not looked yet."""
    INADMISSIBLE: Final = "Inadmissible"
    """Its queue takes nothing, or is not there."""
    WAITING: Final = "Waiting"
    """Blocked by waitForPodsReady."""


class EvictedReason:
    """Reasons of Evicted=True."""

    PREEMPTED: Final = "Preempted"
    """Another workload needs its place."""
    PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
    """Its pods were not ready in time (waitForPodsReady)."""
    ADMISSION_CHECK: Final = "AdmissionCheck"
    """An admission check went to Retry."""
    CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
    """Its ClusterQueue was stopped with HoldAndDrain."""
    LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
    """Its LocalQueue was stopped with HoldAndDrain."""
    NODE_FAILURES: Final = "NodeFailures"
    """Nodes of its failed, and no other place was found."""
    PODS_UNSCHEDULABLE: Final = "PodsUnschedulable"
    """No node took some of its pods after their gate was opened (controller.unschedulableTimeout). Not in Kueue."""
    GANG_TIMEOUT: Final = "GangTimeout"
    """Its gang did not start within the time that its PodGroup gives. Not in Kueue."""
    GANG_GROUP_INCOMPLETE: Final = "GangGroupIncomplete"
    """Another gang of its GangGroup lost its place before all had started. Not in Kueue."""
    DEACTIVATED: Final = "Deactivated"
    """spec.active became false."""


class DeactivationReason:
    """Reasons of DeactivationTarget=True: why Stowage itself deactivates a workload."""

    REQUEUING_LIMIT: Final = "RequeuingLimitExceeded"
    """Its pods were not ready in time more often than backoffLimitCount allows."""
    EXECUTION_TIME: Final = "MaximumExecutionTimeExceeded"
    """It ran longer than spec.maximumExecutionTimeSeconds."""
    ADMISSION_CHECK: Final = "AdmissionCheck"
    """An admission check went to Rejected."""


class PodsReadyReason:
    """Reasons of PodsReady."""

    WAIT_FOR_START: Final = "WaitForStart"
    """Not all pods have been ready yet."""
    STARTED: Final = "Started"
    """All pods are ready."""
    WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
    """All pods were ready, and one is not any more."""
    RECOVERED: Final = "Recovered"
    """All pods are ready again."""


class CheckState:
    """States of an admission check of a Workload; its controller writes all but Pending."""

    PENDING: Final = "Pending"
    """The check has not decided."""
    READY: Final = "Ready"
    """The workload may be admitted."""
    RETRY: Final = "Retry"
    """The workload gives its quota back and queues again."""
    REJECTED: Final = "Rejected"
    """The workload is deactivated."""


class FinishedReason:
    """Reasons of Finished=True."""

    SUCCEEDED: Final = "Succeeded"
    """The job succeeded."""
    FAILED: Final = "Failed"
    """The job failed."""
    OUT_OF_SYNC: Final = "OutOfSync"
    """The job no longer matches the Workload that was made in advance for it."""
    OWNER_NOT_FOUND: Final = "OwnerNotFound"
    """The job is gone."""
    FAILED_TO_START: Final = "FailedToStart"
    """The job cannot start as it was admitted."""
    WORKLOAD_SLICE_REPLACED: Final = "WorkloadSliceReplaced"
    """Another Workload of the same elastic job has taken its place."""


class RequeuedReason:
    """Reasons of Requeued=True."""

    BACKOFF_FINISHED: Final = "BackoffFinished"
    """The wait after an eviction is over."""
    REACTIVATED: Final = "Reactivated"
    """spec.active is true again."""
    CLUSTER_QUEUE_RESTARTED: Final = "ClusterQueueRestarted"
    """Its ClusterQueue takes workloads again."""
    LOCAL_QUEUE_RESTARTED: Final = "LocalQueueRestarted"
    """Its LocalQueue takes workloads again."""


# ---- elastic quota (scheduling.x-k8s.io); its objects are marked by the label, which names the namespace
ELASTIC_GROUP: Final = "scheduling.x-k8s.io"
ELASTIC_SIGS_GROUP: Final = "scheduling.sigs.k8s.io"
ELASTIC_VERSION: Final = "v1alpha1"
ELASTIC_QUOTA: Final = "elastic-quota"  # cohort, flavor, and the LocalQueue of each namespace
ELASTIC_QUOTA_LABEL: Final = "stowage.dev/elastic-quota"
"""On objects that an ElasticQuota is translated into: its namespace."""
MANAGED_NAMESPACE: Final = f"{GROUP}/managed-namespace"
"""On namespaces: jobs that name no queue are queued, too, "true"."""
OVERCOMMITTED: Final = "Overcommitted"


# ---- gangs of other dialects: on pods, and some on PodGroups
COSCHEDULING: Final = "scheduling.x-k8s.io"
COSCHEDULING_SIGS: Final = "scheduling.sigs.k8s.io"
COSCHEDULING_VERSION: Final = "v1alpha1"
GANG_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""On pods: the PodGroup (coscheduling)."""
GANG_NAME: Final = "pod-group.scheduling.x-k8s.io/name"
"""On pods: the gang (older coscheduling)."""
GANG_MINIMUM: Final = "pod-group.scheduling.x-k8s.io/min-available"
"""On pods: how many start together (older coscheduling)."""
SIGS_GANG: Final = "pod-group.scheduling.sigs.k8s.io"
"""On pods: the PodGroup (scheduler-plugins)."""
SIGS_GANG_NAME: Final = "pod-group.scheduling.sigs.k8s.io/name"
"""On pods: the gang (scheduler-plugins, older)."""
SIGS_GANG_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
"""On pods: how many start together (scheduler-plugins, older)."""
SIGS_GANG_GROUPS: Final = "pod-group.scheduling.sigs.k8s.io/groups"
"""On pods and PodGroups: gangs that start together, as JSON."""
SIGS_MATCH_POLICY: Final = "pod-group.scheduling.sigs.k8s.io/match-policy"
"""On pods and PodGroups: which pods count toward the minimum."""
KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
KOORDINATOR_NAME: Final = f"{KOORDINATOR}/name"
"""On pods: the gang (Koordinator)."""
KOORDINATOR_MINIMUM: Final = f"{KOORDINATOR}/min-available"
"""On pods: how many start together (Koordinator)."""
KOORDINATOR_GROUPS: Final = f"{KOORDINATOR}/groups"
"""On pods: gangs that start together, as JSON (Koordinator)."""
KOORDINATOR_MATCH_POLICY: Final = f"{KOORDINATOR}/match-policy"
"""On pods: which pods count toward the minimum (Koordinator)."""

# ---- ours, beyond Kueue
STOWAGE: Final = "stowage.dev"
CONVERSION_PROBLEM: Final = f"{STOWAGE}/conversion-problem"
"""On converted objects: what the other version cannot express."""
FIELD_MANAGER: Final = "stowage"
PLACEMENT_CONSTRAINTS: Final = f"{STOWAGE}/placement-constraints"
"""On jobs and pod templates: constraints by level, as JSON."""
RELAX_TOPOLOGY_AFTER: Final = f"{STOWAGE}/relax-topology-after"
"""On jobs and pod templates: the wait after which a required level is widened."""
SPARE_HOSTS: Final = f"{STOWAGE}/spare-hosts"
"""On jobs and pod templates: hosts that are held free for pods whose own fails."""
PLACEMENT_PROFILE: Final = f"{STOWAGE}/placement-profile"
"""On jobs and ClusterQueues: Exact, Compatible or LeastFree."""
BACKFILL: Final = f"{STOWAGE}/backfill"
"""On ClusterQueues: the head gets an expected start, and no workload delays it."""
LASTING_CLAIM: Final = f"{STOWAGE}/claim-outlives-pod"
"""In Workloads of StatefulSets, on the claims of each pod: they stay when the pod goes."""
SET_NAME: Final = f"{STOWAGE}/set-name"
"""On pods of a kind that is declared by its scale: the name of their object."""
OPENED_LABEL: Final = f"{STOWAGE}/opened"
"""On pods whose template names their domain: the ungater has nothing to do."""
WOKEN_AT: Final = f"{STOWAGE}/woken-at"
"""On Jobs that their own controller had overlooked: when Stowage changed them for that."""
EXACT: Final = "Exact"
COMPATIBLE: Final = "Compatible"
LEAST_FREE: Final = "LeastFree"
PROFILES: Final = (EXACT, COMPATIBLE, LEAST_FREE)
# read by `stowage simulate` alone: how long a job runs there, and how long after its beginning it comes (Go durations)
SIMULATED_DURATION: Final = f"{STOWAGE}/simulated-duration"
"""Read by `stowage simulate`: how long the job runs."""
SIMULATED_ARRIVAL: Final = f"{STOWAGE}/simulated-arrival"
"""Read by `stowage simulate`: how long after its beginning the job comes."""
# a gang, written on its objects: its pods, PodGroups made from labels, Workloads (its name, first pod's time, GangGroup)
GANG_MADE: Final = f"{STOWAGE}/made-from-labels"
"""On PodGroups that were made from the labels of pods."""
GANG: Final = f"{STOWAGE}/gang"
"""On pods and Workloads: the gang."""
GANG_TERMS: Final = f"{STOWAGE}/gang-terms"
"""On pods: what they say of their gang, in the one form that the webhook writes."""
GANG_MEMBER: Final = f"{STOWAGE}/gang-member"
"""On pods of gangs: "true"."""
GANG_QUEUE: Final = "gangs"  # ClusterQueue, flavor, and the LocalQueue of each namespace, of gangs that name no queue
GANG_SINCE: Final = f"{STOWAGE}/gang-since"
"""On Workloads: when the first pod of the gang came."""
GANG_UID: Final = f"{STOWAGE}/gang-uid"
"""On Workloads: the UID of the PodGroup."""
GANG_GROUP: Final = f"{STOWAGE}/gang-group"
"""On Workloads: the gangs that start together."""
GANG_WAITING: Final = "GangWaiting"  # reason: the gang lacks pods, and how many
GANG_CHECK: Final = f"{STOWAGE}/gang-group"
"""The admission check that holds until all gangs of a GangGroup have quota."""

# ---- Sakkara: groups and trees in ConfigMaps
SAKKARA_TOPOLOGY: Final = "sakkara.topology"
"""Label key, any value, of a ConfigMap that holds a tree of nodes."""
SAKKARA_GROUP: Final = "sakkara.group"
"""Label key, any value, of a ConfigMap that describes a group."""
SAKKARA_GROUP_NAME: Final = "sakkara.group.name"
"""On pods: the group."""
# ClusterQueue, flavor, and the LocalQueue of each namespace, of groups that name no queue; and the tree that they go by
SAKKARA_QUEUE: Final = "sakkara"
SAKKARA_RANK: Final = "sakkara.member.rank"
"""On placed pods: the rank in the group."""
SAKKARA_RETRIES: Final = "sakkara.member.retries"
"""On placed pods: how often the group was tried."""
SAKKARA_STATUS: Final = "sakkara.member.status"
"""On placed pods: what became of them."""
SAKKARA_GROUP_ANNOTATION: Final = f"{STOWAGE}/sakkara-group"
"""On the Workload of a group: its ConfigMap."""
