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
PRIORITY_CLASS_LABEL: Final = f"{GROUP}/priority-class"
PREBUILT_WORKLOAD: Final = f"{GROUP}/prebuilt-workload-name"
MAX_EXEC_TIME_LABEL: Final = f"{GROUP}/max-exec-time-seconds"
PODSET_LABEL: Final = f"{GROUP}/podset"
LOCAL_QUEUE_LABEL: Final = f"{GROUP}/local-queue-name"
CLUSTER_QUEUE_LABEL: Final = f"{GROUP}/cluster-queue-name"
JOB_UID_LABEL: Final = f"{GROUP}/job-uid"
MANAGED_LABEL: Final = f"{GROUP}/managed"
POD_GROUP_INDEX_LABEL: Final = f"{GROUP}/pod-group-pod-index"
POD_GROUP_NAME: Final = f"{GROUP}/pod-group-name"  # also as an annotation
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"  # spec.managedBy of Jobs that are left to Kubernetes
JOBSET_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
STATEFULSET_POD_INDEX: Final = "apps.kubernetes.io/pod-index"
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"

# ---- annotations that a user writes
REQUIRE_TOPOLOGY: Final = f"{GROUP}/require-topology"
PREFER_TOPOLOGY: Final = f"{GROUP}/prefer-topology"
AUTO_LEVEL: Final = "auto"
REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-required-topology"
PREFERRED_TOPOLOGY: Final = f"{GROUP}/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY: Final = f"{GROUP}/podset-unconstrained-topology"
SLICE_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-slice-required-topology"
SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
SLICE_CONSTRAINTS: Final = f"{GROUP}/podset-slice-required-topology-constraints"
PODSET_GROUP_NAME: Final = f"{GROUP}/podset-group-name"
POD_INDEX_OFFSET: Final = f"{GROUP}/pod-index-offset"
MIN_PARALLELISM: Final = f"{GROUP}/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM: Final = f"{GROUP}/job-completions-equal-parallelism"
ELASTIC_JOB: Final = f"{GROUP}/elastic-job"
ADMISSION_GATED_BY: Final = f"{GROUP}/admission-gated-by"
PRIORITY_BOOST: Final = f"{GROUP}/priority-boost"

# ---- annotations of plain pods and their groups
POD_GROUP_TOTAL_COUNT: Final = f"{GROUP}/pod-group-total-count"
POD_GROUP_INDEX_SOURCE: Final = f"{GROUP}/pod-group-pod-index-label"
POD_GROUP_FAST_ADMISSION: Final = f"{GROUP}/pod-group-fast-admission"
POD_GROUP_SERVING: Final = f"{GROUP}/pod-group-serving"
RETRIABLE_IN_GROUP: Final = f"{GROUP}/retriable-in-group"
ROLE_HASH: Final = f"{GROUP}/role-hash"
POD_SUSPENDING_PARENT: Final = f"{GROUP}/pod-suspending-parent"
IS_GROUP_WORKLOAD: Final = f"{GROUP}/is-group-workload"
COMPONENT_INDEX: Final = f"{GROUP}/component-workload-index"  # on Workloads: which group of its owner

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
WORKLOAD_SLICE_NAME: Final = f"{GROUP}/workload-slice-name"
TOPOLOGY_WORKLOAD: Final = f"{GROUP}/topology-workload"  # the first form, written beside the current one
TOPOLOGY_PODSET: Final = f"{GROUP}/topology-podset"
TOPOLOGY_GATE: Final = f"{GROUP}/topology"
ADMISSION_GATE: Final = f"{GROUP}/admission"

# ---- finalizers
IN_USE_FINALIZER: Final = f"{GROUP}/resource-in-use"
MANAGED_FINALIZER: Final = f"{GROUP}/managed"
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


class LegacyWaiting:
    """Kueue's older reasons of QuotaReserved=False; Kueue gives them where UnadmittedWorkloadsObservability is off."""

    PENDING: Final = "Pending"
    """The scheduler has not found a place, or has not looked yet."""
    INADMISSIBLE: Final = "Inadmissible"
    """Its queue takes nothing, or is not there."""
    WAITING: Final = "Waiting"
    """Blocked by waitForPodsReady."""


class Evicting:
    """Reasons of Evicted=True."""

    PREEMPTED: Final = "Preempted"
    PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
    ADMISSION_CHECK: Final = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
    NODE_FAILURES: Final = "NodeFailures"
    GANG_TIMEOUT: Final = "GangTimeout"  # ours
    GANG_GROUP_INCOMPLETE: Final = "GangGroupIncomplete"  # ours
    DEACTIVATED: Final = "Deactivated"


class Deactivating:
    """Reasons of DeactivationTarget=True: why Stowage itself deactivates a workload."""

    REQUEUING_LIMIT: Final = "RequeuingLimitExceeded"
    EXECUTION_TIME: Final = "MaximumExecutionTimeExceeded"
    ADMISSION_CHECK: Final = "AdmissionCheck"


class PodsReadiness:
    """Reasons of PodsReady."""

    WAIT_FOR_START: Final = "WaitForStart"
    STARTED: Final = "Started"
    WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
    RECOVERED: Final = "Recovered"


class CheckState:
    """States of an admission check of a Workload; its controller writes all but Pending."""

    PENDING: Final = "Pending"
    READY: Final = "Ready"
    RETRY: Final = "Retry"
    REJECTED: Final = "Rejected"


class Finishing:
    """Reasons of Finished=True."""

    SUCCEEDED: Final = "Succeeded"
    FAILED: Final = "Failed"
    OUT_OF_SYNC: Final = "OutOfSync"
    OWNER_NOT_FOUND: Final = "OwnerNotFound"
    FAILED_TO_START: Final = "FailedToStart"


class Requeueing:
    """Reasons of Requeued=True."""

    BACKOFF_FINISHED: Final = "BackoffFinished"
    REACTIVATED: Final = "Reactivated"
    CLUSTER_QUEUE_RESTARTED: Final = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED: Final = "LocalQueueRestarted"


# ---- elastic quota (scheduling.x-k8s.io); its objects are told by the label, which names the namespace
ELASTIC_GROUP: Final = "scheduling.x-k8s.io"
ELASTIC_SIGS_GROUP: Final = "scheduling.sigs.k8s.io"
ELASTIC_VERSION: Final = "v1alpha1"
ELASTIC_QUOTA: Final = "elastic-quota"  # cohort, flavor, and the LocalQueue of each namespace
ELASTIC_QUOTA_LABEL: Final = "stowage.dev/elastic-quota"
MANAGED_NAMESPACE: Final = f"{GROUP}/managed-namespace"
OVERCOMMITTED: Final = "Overcommitted"


# ---- gangs of other dialects: on pods, and some on PodGroups
COSCHEDULING: Final = "scheduling.x-k8s.io"
COSCHEDULING_SIGS: Final = "scheduling.sigs.k8s.io"
COSCHEDULING_VERSION: Final = "v1alpha1"
GANG_LABEL: Final = "scheduling.x-k8s.io/pod-group"
GANG_NAME: Final = "pod-group.scheduling.x-k8s.io/name"
GANG_MINIMUM: Final = "pod-group.scheduling.x-k8s.io/min-available"
SIGS_GANG: Final = "pod-group.scheduling.sigs.k8s.io"
SIGS_GANG_NAME: Final = "pod-group.scheduling.sigs.k8s.io/name"
SIGS_GANG_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
SIGS_GANG_GROUPS: Final = "pod-group.scheduling.sigs.k8s.io/groups"
SIGS_MATCH_POLICY: Final = "pod-group.scheduling.sigs.k8s.io/match-policy"
KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
KOORDINATOR_NAME: Final = f"{KOORDINATOR}/name"
KOORDINATOR_MINIMUM: Final = f"{KOORDINATOR}/min-available"
KOORDINATOR_GROUPS: Final = f"{KOORDINATOR}/groups"
KOORDINATOR_MATCH_POLICY: Final = f"{KOORDINATOR}/match-policy"

# ---- ours, beyond Kueue
STOWAGE: Final = "stowage.dev"
CONVERSION_PROBLEM: Final = f"{STOWAGE}/conversion-problem"  # what of the object another version could not express
FIELD_MANAGER: Final = "stowage"
PLACEMENT_CONSTRAINTS: Final = f"{STOWAGE}/placement-constraints"
RELAX_TOPOLOGY_AFTER: Final = f"{STOWAGE}/relax-topology-after"
PLACEMENT_PROFILE: Final = f"{STOWAGE}/placement-profile"
BACKFILL: Final = f"{STOWAGE}/backfill"
OPENED_LABEL: Final = f"{STOWAGE}/opened"  # on pods whose template names their domain: nothing is left to be opened
WOKEN_AT: Final = f"{STOWAGE}/woken-at"  # on a Job that its own controller had overlooked: when we changed it for that
EXACT: Final = "Exact"
COMPATIBLE: Final = "Compatible"
LEAST_FREE: Final = "LeastFree"
PROFILES: Final = (EXACT, COMPATIBLE, LEAST_FREE)
# read by `stowage simulate` alone: how long a job runs there, and how long after its beginning it comes (Go durations)
SIMULATED_DURATION: Final = f"{STOWAGE}/simulated-duration"
SIMULATED_ARRIVAL: Final = f"{STOWAGE}/simulated-arrival"
# a gang, told on what stands for it: its pods, PodGroups made from labels, Workloads (its name, first pod's time, GangGroup)
GANG_MADE: Final = f"{STOWAGE}/made-from-labels"
GANG: Final = f"{STOWAGE}/gang"
GANG_TERMS: Final = f"{STOWAGE}/gang-terms"
GANG_MEMBER: Final = f"{STOWAGE}/gang-member"  # label "true" of all pods of gangs
GANG_QUEUE: Final = "gangs"  # ClusterQueue, flavor, and the LocalQueue of each namespace, of gangs that name no queue
GANG_SINCE: Final = f"{STOWAGE}/gang-since"
GANG_UID: Final = f"{STOWAGE}/gang-uid"
GANG_GROUP: Final = f"{STOWAGE}/gang-group"
GANG_WAITING: Final = "GangWaiting"  # reason: the gang lacks pods, and how many
GANG_CHECK: Final = f"{STOWAGE}/gang-group"  # the admission check that holds until all gangs of a GangGroup have quota

# ---- Sakkara: groups and trees told in ConfigMaps
SAKKARA_TOPOLOGY: Final = "sakkara.topology"  # label key (any value) of a ConfigMap that holds a tree of nodes
SAKKARA_GROUP: Final = "sakkara.group"  # label key (any value) of a ConfigMap that describes a group
SAKKARA_GROUP_NAME: Final = "sakkara.group.name"  # label of pods: the group
# ClusterQueue, flavor, and the LocalQueue of each namespace, of groups that name no queue; and the tree that they go by
SAKKARA_QUEUE: Final = "sakkara"
SAKKARA_RANK: Final = "sakkara.member.rank"  # labels that placed pods get
SAKKARA_RETRIES: Final = "sakkara.member.retries"
SAKKARA_STATUS: Final = "sakkara.member.status"
SAKKARA_GROUP_ANNOTATION: Final = f"{STOWAGE}/sakkara-group"  # on the group's Workload: the name of its ConfigMap
