"""Names of the APIs: labels, annotations, gates, finalizers, condition types and reasons, of Kueue and other dialects."""

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
"""On jobs and pods, label or annotation: a prebuilt Workload."""
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
"""On queued plain pods: "true"."""
POD_GROUP_INDEX_LABEL: Final = f"{GROUP}/pod-group-pod-index"
"""On pods: the rank in the group."""
POD_GROUP_NAME: Final = f"{GROUP}/pod-group-name"
"""On pods, label or annotation: the name of Kueue's pod group."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
"""On nodes: the host, the lowest level of most topologies."""
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""On pods of Jobs: the rank."""
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of spec.managedBy of Jobs that Kubernetes' own controller runs."""
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
"""On jobs and pod templates: all pods of a pod set in one domain of that level, else the job waits."""
PREFER_TOPOLOGY: Final = f"{GROUP}/prefer-topology"
"""On jobs and pod templates: as few domains of that level (or `auto`) as possible."""
AUTO_LEVEL: Final = "auto"
REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-required-topology"
"""On pod templates: Kueue's form of `require-topology`."""
PREFERRED_TOPOLOGY: Final = f"{GROUP}/podset-preferred-topology"
"""On pod templates: Kueue's form of `prefer-topology`."""
UNCONSTRAINED_TOPOLOGY: Final = f"{GROUP}/podset-unconstrained-topology"
"""On pod templates, "true": any domains of the topology."""
SLICE_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-slice-required-topology"
"""On pod templates: the level that holds each slice."""
SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
"""On pod templates: the number of pods in a slice."""
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
"""On Workloads of elastic jobs: the key of the admitted Workload that this one replaces."""
ADMISSION_GATED_BY: Final = f"{GROUP}/admission-gated-by"
"""On jobs: names that must be removed before the job is considered."""
PRIORITY_BOOST: Final = f"{GROUP}/priority-boost"
"""On Workloads: added to the priority if `featureGates.PriorityBoost` is on."""

# ---- annotations of plain pods and their groups
POD_GROUP_TOTAL_COUNT: Final = f"{GROUP}/pod-group-total-count"
"""On pods: how many pods the group has."""
POD_GROUP_INDEX_SOURCE: Final = f"{GROUP}/pod-group-pod-index-label"
"""On pods: the label that holds the rank."""
POD_GROUP_FAST_ADMISSION: Final = f"{GROUP}/pod-group-fast-admission"
"""On pods, "true": the group is admitted when its first pod exists."""
POD_GROUP_SERVING: Final = f"{GROUP}/pod-group-serving"
"""On pods, "true": the group never ends."""
RETRIABLE_IN_GROUP: Final = f"{GROUP}/retriable-in-group"
"""On pods, "false": failed pods of the group are not replaced."""
ROLE_HASH: Final = f"{GROUP}/role-hash"
"""On pods: the role, a hash of the pod's requests."""
POD_SUSPENDING_PARENT: Final = f"{GROUP}/pod-suspending-parent"
"""On pods: the kind of the owner that queues its pods instead of being suspended."""
IS_GROUP_WORKLOAD: Final = f"{GROUP}/is-group-workload"
"""On Workloads of pod groups: "true"."""
COMPONENT_INDEX: Final = f"{GROUP}/component-workload-index"
"""On Workloads: the group of the set that owns them."""

# A pod with one of these counts in its workload's assignment and is not a foreign pod.
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
"""On pods: the older form of `workload`."""
TOPOLOGY_PODSET: Final = f"{GROUP}/topology-podset"
"""On pods: the older form of the label `podset`."""
TOPOLOGY_GATE: Final = f"{GROUP}/topology"
"""The scheduling gate that the ungater removes when the pod has its domain."""
ADMISSION_GATE: Final = f"{GROUP}/admission"
"""The scheduling gate of plain pods; removed when their Workload is admitted."""

ELASTIC_GATE: Final = ELASTIC_JOB
"""The scheduling gate of an elastic job's pods, removed from as many as are admitted."""

# ---- finalizers
IN_USE_FINALIZER: Final = f"{GROUP}/resource-in-use"
"""On Workloads, queues, flavors and topologies that are in use."""
MANAGED_FINALIZER: Final = f"{GROUP}/managed"
"""On plain pods: the end of the pod is not yet counted."""
JOB_TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""On pods whose end the Job controller has not yet counted."""

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
    """No placement was found, or the workload was not evaluated yet."""
    INADMISSIBLE: Final = "Inadmissible"
    """Its queue is stopped, inactive or missing."""
    WAITING: Final = "Waiting"
    """Blocked by waitForPodsReady."""


class EvictedReason:
    """Reasons of Evicted=True."""

    PREEMPTED: Final = "Preempted"
    """Another workload preempted it."""
    PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
    """Its pods were not ready in time (waitForPodsReady)."""
    ADMISSION_CHECK: Final = "AdmissionCheck"
    """An admission check went to Retry."""
    CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
    """Its ClusterQueue was stopped with HoldAndDrain."""
    LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
    """Its LocalQueue was stopped with HoldAndDrain."""
    NODE_FAILURES: Final = "NodeFailures"
    """Some of its nodes failed, and no replacement was found."""
    PODS_UNSCHEDULABLE: Final = "PodsUnschedulable"
    """Some pods were not scheduled after their gate was opened (controller.unschedulableTimeout). Not in Kueue."""
    GANG_TIMEOUT: Final = "GangTimeout"
    """Its gang did not start within the timeout of its PodGroup. Not in Kueue."""
    GANG_GROUP_INCOMPLETE: Final = "GangGroupIncomplete"
    """Another gang of its GangGroup was evicted before all had started. Not in Kueue."""
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
    """Not all pods have been ready so far."""
    STARTED: Final = "Started"
    """All pods are ready."""
    WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
    """All pods were ready, but one no longer is."""
    RECOVERED: Final = "Recovered"
    """All pods are ready again."""


class CheckState:
    """States of an admission check of a Workload; its controller writes all but Pending."""

    PENDING: Final = "Pending"
    """The check has not decided."""
    READY: Final = "Ready"
    """The workload may be admitted."""
    RETRY: Final = "Retry"
    """The workload releases its quota and is queued again."""
    REJECTED: Final = "Rejected"
    """The workload is deactivated."""


class FinishedReason:
    """Reasons of Finished=True."""

    SUCCEEDED: Final = "Succeeded"
    """The job succeeded."""
    FAILED: Final = "Failed"
    """The job failed."""
    OUT_OF_SYNC: Final = "OutOfSync"
    """The job no longer matches its prebuilt Workload."""
    OWNER_NOT_FOUND: Final = "OwnerNotFound"
    """The job was deleted."""
    FAILED_TO_START: Final = "FailedToStart"
    """The job cannot start as it was admitted."""
    WORKLOAD_SLICE_REPLACED: Final = "WorkloadSliceReplaced"
    """Another Workload of the same elastic job replaced it."""


class RequeuedReason:
    """Reasons of Requeued=True."""

    BACKOFF_FINISHED: Final = "BackoffFinished"
    """The backoff after an eviction has ended."""
    REACTIVATED: Final = "Reactivated"
    """spec.active is true again."""
    CLUSTER_QUEUE_RESTARTED: Final = "ClusterQueueRestarted"
    """Its ClusterQueue is no longer stopped."""
    LOCAL_QUEUE_RESTARTED: Final = "LocalQueueRestarted"
    """Its LocalQueue is no longer stopped."""


# ---- elastic quota (scheduling.x-k8s.io); the label on its objects names the namespace
ELASTIC_GROUP: Final = "scheduling.x-k8s.io"
ELASTIC_SIGS_GROUP: Final = "scheduling.sigs.k8s.io"
ELASTIC_VERSION: Final = "v1alpha1"
ELASTIC_QUOTA: Final = "elastic-quota"  # cohort, flavor, and the LocalQueue of each namespace
ELASTIC_QUOTA_LABEL: Final = "stowage.dev/elastic-quota"
"""On objects created for an ElasticQuota: its namespace."""
MANAGED_NAMESPACE: Final = f"{GROUP}/managed-namespace"
"""On namespaces, "true": jobs that name no queue are queued too."""
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

# ---- Stowage's own names
STOWAGE: Final = "stowage.dev"
CONVERSION_PROBLEM: Final = f"{STOWAGE}/conversion-problem"
"""On converted objects: the parts that could not be converted."""
FIELD_MANAGER: Final = "stowage"
PLACEMENT_CONSTRAINTS: Final = f"{STOWAGE}/placement-constraints"
"""On jobs and pod templates: constraints by level, as JSON."""
RELAX_TOPOLOGY_AFTER: Final = f"{STOWAGE}/relax-topology-after"
"""On jobs and pod templates: the waiting time after which a required level is widened."""
SPARE_HOSTS: Final = f"{STOWAGE}/spare-hosts"
"""On jobs and pod templates: the number of hosts kept free for pods whose host fails."""
PLACEMENT_PROFILE: Final = f"{STOWAGE}/placement-profile"
"""On jobs and ClusterQueues: Exact, Compatible or LeastFree."""
BACKFILL: Final = f"{STOWAGE}/backfill"
"""On ClusterQueues, "true": the head gets an expected start, which no other workload may delay."""
LASTING_CLAIM: Final = f"{STOWAGE}/claim-outlives-pod"
"""In Workloads of StatefulSets, on the claims of each pod: they outlive the pod."""
SET_NAME: Final = f"{STOWAGE}/set-name"
"""On pods of a kind that is declared by its scale subresource: the name of their object."""
OPENED_LABEL: Final = f"{STOWAGE}/opened"
"""On pods whose template selects their domain, so that they need no ungater."""
WOKEN_AT: Final = f"{STOWAGE}/woken-at"
"""On Jobs that their controller missed: when Stowage updated them to trigger it."""
EXACT: Final = "Exact"
COMPATIBLE: Final = "Compatible"
LEAST_FREE: Final = "LeastFree"
PROFILES: Final = (EXACT, COMPATIBLE, LEAST_FREE)
# read by `stowage simulate` alone: how long a job runs there, and how long after its beginning it comes (Go durations)
SIMULATED_DURATION: Final = f"{STOWAGE}/simulated-duration"
"""Read by `stowage simulate`: how long the job runs."""
SIMULATED_ARRIVAL: Final = f"{STOWAGE}/simulated-arrival"
"""Read by `stowage simulate`: when the job arrives, as a duration after the start."""
# ---- a gang, on its pods, PodGroups created from labels, and Workloads
GANG_MADE: Final = f"{STOWAGE}/made-from-labels"
"""On PodGroups that Stowage created from pods' labels."""
GANG: Final = f"{STOWAGE}/gang"
"""On pods and Workloads: the gang."""
GANG_TERMS: Final = f"{STOWAGE}/gang-terms"
"""On pods: the gang's terms, as normalized by the webhook."""
GANG_MEMBER: Final = f"{STOWAGE}/gang-member"
"""On pods of gangs: "true"."""
GANG_QUEUE: Final = "gangs"  # ClusterQueue, flavor, and the LocalQueue of each namespace, of gangs that name no queue
GANG_SINCE: Final = f"{STOWAGE}/gang-since"
"""On Workloads: when the first pod of the gang was created."""
GANG_UID: Final = f"{STOWAGE}/gang-uid"
"""On Workloads: the UID of the PodGroup."""
GANG_GROUP: Final = f"{STOWAGE}/gang-group"
"""On Workloads: the gangs that start together."""
GANG_WAITING: Final = "GangWaiting"  # reason: the gang lacks pods, and how many
GANG_CHECK: Final = f"{STOWAGE}/gang-group"
"""The admission check that waits until all gangs of a GangGroup have quota."""

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
"""On placed pods: the number of attempts of the group."""
SAKKARA_STATUS: Final = "sakkara.member.status"
"""On placed pods: their result."""
SAKKARA_GROUP_ANNOTATION: Final = f"{STOWAGE}/sakkara-group"
"""On the Workload of a group: its ConfigMap."""
