"""Types and reasons of conditions of Workloads, queues and the other kinds; docs/reference/conditions.md is made of them.

A type's string says which objects have the condition and what True means. Reasons of QuotaReserved=False are those of
`admission.engine.reasons.Reason`.
"""

from __future__ import annotations

from typing import Final

from api.names.labels import STOWAGE

# ---- Kueue's conditions of Workloads
QUOTA_RESERVED: Final = "QuotaReserved"
"""On Workloads: quota is reserved; if not, the reason says why the workload waits."""
ADMITTED: Final = "Admitted"
"""On Workloads: quota is reserved and all admission checks are ready, so the job may run."""
FINISHED: Final = "Finished"
"""On Workloads: the job has ended; final."""
EVICTED: Final = "Evicted"
"""On Workloads: the job must stop and release its quota."""
PREEMPTED: Final = "Preempted"
"""On Workloads: the eviction is a preemption; the reason is the policy that permits it."""
REQUEUED: Final = "Requeued"
"""On Workloads: the workload may queue again after an eviction; the reason of False is that of the eviction."""
PODS_READY: Final = "PodsReady"
"""On Workloads: all pods are ready or have succeeded."""
DEACTIVATION_TARGET: Final = "DeactivationTarget"
"""On Workloads: Stowage is about to set spec.active to false."""
BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"
"""On Workloads: the workload could start only by preemption, which its preemption gates forbid."""
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"
"""On Workloads of pod groups and gangs: the group lacks pods. During an eviction, the reason is that of the eviction."""

# ---- Stowage's conditions of Workloads
EXPLANATION: Final = f"{STOWAGE}/Explanation"
"""On Workloads: why the workload waits, and what would admit it; the reason is one of "Why a workload waits"."""
EXPECTED_START: Final = f"{STOWAGE}/ExpectedStart"
"""On Workloads: when the waiting workload is expected to start, if `controller.forecasts` is on; gone once it has quota."""
PLACEMENT: Final = f"{STOWAGE}/Placement"
"""On Workloads: the topology assignment in plain words."""
GANG_BOUND: Final = f"{STOWAGE}/GangBound"
"""On Workloads of gangs: the gang's minimum of pods was bound under this admission, after which no time limit ends it."""
PODS_HELD: Final = f"{STOWAGE}/PodsHeld"
"""On Workloads: which pods keep their gate although the Workload may have quota; the reason is that of the event."""
UNSCHEDULABLE: Final = f"{STOWAGE}/PodsUnschedulable"
"""On Workloads: the ungated pods that no node accepts, in kube-scheduler's words."""
NOT_CREATED: Final = f"{STOWAGE}/PodsNotCreated"
"""On Workloads: how many pods of the admitted job do not exist since the API server refuses them, in its words."""
BEYOND_ADMISSION: Final = f"{STOWAGE}/PodsBeyondAdmission"
"""On Workloads: more pods run than were admitted; they are charged, and those beyond the admission are ended."""
LEVELS_KEPT: Final = f"{STOWAGE}/TopologyKept"
"""On Workloads: the required topology holds; False while changed node labels violate it."""
HOSTS_HELD: Final = f"{STOWAGE}/SpareHosts"
"""On Workloads: the requested spare hosts are held in reserve; False while there are fewer."""
BACKFILLED: Final = f"{STOWAGE}/Backfilled"
"""On Workloads: it overtook a waiting workload by its learned run time; the message says from when on it may be evicted."""
MOVING: Final = f"{STOWAGE}/Moving"
"""On Workloads: the job stops to start anew at its new place, which the status names already; False since it has stopped."""

# ---- conditions of other objects
ACTIVE: Final = "Active"
"""On ClusterQueues, LocalQueues, Cohorts, AdmissionChecks, ElasticQuotas and JobKinds: the object is in use."""
READY: Final = "Ready"
OVERCOMMITTED: Final = "Overcommitted"
"""On ElasticQuotas: all elastic quotas together promise more than the cluster has."""
ABOVE_RESOURCE_QUOTA: Final = "AboveResourceQuota"
"""On ElasticQuotas: a ResourceQuota of the namespace allows less than `max`, so what is above it cannot be used."""
FIELDS_HONOURED: Final = f"{STOWAGE}/FieldsHonoured"
"""On Workloads, ClusterQueues, LocalQueues and Cohorts: all that is set has an effect; False names what has none."""
GANG_STARTED: Final = "Started"
"""On PodGroups: the gang's pods were started; if not, the reason is that of QuotaReserved, once the gang has its pods."""


class AdmittedReason:
    """Reasons of Admitted."""

    ADMITTED: Final = "Admitted"
    """Quota is reserved and all admission checks are ready."""
    NO_RESERVATION: Final = "NoReservation"
    """The workload has no quota."""
    UNSATISFIED_CHECKS: Final = "UnsatisfiedAdmissionChecks"
    """Quota is reserved, but admission checks are not ready."""
    PENDING_TOPOLOGY: Final = "PendingDelayedTopologyRequests"
    """Quota is reserved and admission checks are ready, but pods have no place in the topology yet."""


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
    PODS_NOT_CREATED: Final = "PodsNotCreated"
    """The API server refused some of its pods for controller.unschedulableTimeout. Not in Kueue."""
    BACKFILL_ENDED: Final = "BackfillEnded"
    """It overtook a waiting workload by its learned run time, and outlasted it in that one's place. Not in Kueue."""
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
    """Another Workload of the same job replaced it."""


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


class PreemptionGateReason:
    """Reasons of BlockedOnPreemptionGates; a reservation or an eviction also sets it to False, with its own name as reason."""

    GATED: Final = "PreemptionGated"
    """A preemption gate is closed."""
    OPEN: Final = "PreemptionGatesOpen"
    """All preemption gates are open."""


class ReplacementReason:
    """Reasons of WaitingForReplacementPods, besides those of an eviction."""

    PODS_FAILED: Final = "PodsFailed"
    """Pods of the group failed."""
    GANG_WAITING: Final = "GangWaiting"
    """The gang has fewer pods than its minimum; the message has the numbers."""
    PODS_READY: Final = "PodsReady"
    """No pod is missing."""


class PodsHeldReason:
    """Reasons of stowage.dev/PodsHeld, besides those of the events that report the same."""

    UNLIKE_PODS: Final = "PodGroupInconsistent"
    """Pods of the group contradict each other or their Workload."""
    GROUP_FINISHED: Final = "PodGroupFinished"
    """Pods were created after the group's Workload had finished."""
    PODS_WAIT: Final = "PodsWait"
    """The message says what the pods wait for."""


class WorkloadStateReason:
    """Reasons of Stowage's other conditions of Workloads, which have one reason for each value."""

    FORECAST: Final = "Forecast"
    """stowage.dev/ExpectedStart is True."""
    LEARNED_RUN_TIME: Final = "LearnedRunTime"
    """stowage.dev/Backfilled is True."""
    PLACED: Final = "Placed"
    """stowage.dev/Placement is True."""
    BOUND: Final = "Bound"
    """stowage.dev/GangBound is True, or stowage.dev/PodsUnschedulable is False."""
    UNSCHEDULABLE: Final = "Unschedulable"
    """stowage.dev/PodsUnschedulable is True."""
    REFUSED: Final = "CreationRefused"
    """stowage.dev/PodsNotCreated is True: the API server refuses pods."""
    NOT_REPLACED: Final = "NotReplaced"
    """stowage.dev/PodsNotCreated is True: all pods have gone, and nobody has created others."""
    CREATED: Final = "Created"
    """stowage.dev/PodsNotCreated is False: the API server refuses none of its pods any more."""
    SURPLUS: Final = "SurplusPods"
    """stowage.dev/PodsBeyondAdmission is True."""
    WITHIN_ADMISSION: Final = "WithinAdmission"
    """stowage.dev/PodsBeyondAdmission is False."""
    RELABELLED: Final = "NodesRelabelled"
    """stowage.dev/TopologyKept is False."""
    RESTORED: Final = "Restored"
    """stowage.dev/TopologyKept is True again."""
    HOSTS_HELD: Final = "Held"
    """stowage.dev/SpareHosts is True."""
    TOO_FEW_HOSTS: Final = "TooFewHosts"
    """stowage.dev/SpareHosts is False."""


class MovingReason:
    """Reasons of stowage.dev/Moving; an eviction also sets it to False, with its own name as reason."""

    PLACE_HELD: Final = "PlaceHeld"
    """The new place is held for it; the message says for what it leaves the old one."""
    MOVED: Final = "Moved"
    """The job has left its old place. The time of this transition begins its next minimum run time."""


class ActiveReason:
    """Reasons of Active of ClusterQueues, LocalQueues and Cohorts."""

    READY: Final = READY
    """The queue admits workloads."""
    STOPPED: Final = "Stopped"
    """spec.stopPolicy holds the queue."""
    TERMINATING: Final = "Terminating"
    """The ClusterQueue was deleted and still has workloads."""
    FLAVOR_NOT_FOUND: Final = "FlavorNotFound"
    """The ClusterQueue names a ResourceFlavor that does not exist."""
    TOPOLOGY_NOT_FOUND: Final = "TopologyNotFound"
    """A flavor of the ClusterQueue names a Topology that does not exist."""
    CHECK_NOT_FOUND: Final = "AdmissionCheckNotFound"
    """The ClusterQueue names an AdmissionCheck that does not exist."""
    CHECK_INACTIVE: Final = "AdmissionCheckInactive"
    """An AdmissionCheck of the ClusterQueue is not active."""
    CHECK_NOT_SUPPORTED: Final = "NotSupportedWithTopologyAwareScheduling"
    """A flavor has a topology, and an AdmissionCheck is one of MultiKueue or ProvisioningRequest."""
    COHORT_CYCLE: Final = "CohortCycle"
    """Cohorts are each other's parents."""
    CLUSTER_QUEUE_MISSING: Final = "ClusterQueueDoesNotExist"
    """The LocalQueue names a ClusterQueue that does not exist."""
    CLUSTER_QUEUE_INACTIVE: Final = "ClusterQueueIsInactive"
    """The ClusterQueue of the LocalQueue is not active."""


class ElasticQuotaReason:
    """Reasons of ElasticQuotas: of Active=False, which otherwise is that of the ClusterQueue; then of Overcommitted and
    AboveResourceQuota.
    """

    SECOND_IN_NAMESPACE: Final = "SecondInNamespace"
    """The namespace has an older ElasticQuota, which alone is in use."""
    INVALID: Final = "Invalid"
    """The spec cannot be used; the message says why."""
    NAME_TAKEN: Final = "NameTaken"
    """An object of the name that Stowage would create exists and is not Stowage's."""
    EXCEEDS_CAPACITY: Final = "MinExceedsCapacity"
    """The sum of all `min` exceeds the cluster's capacity."""
    WITHIN_CAPACITY: Final = "WithinCapacity"
    """The sum of all `min` no longer exceeds the cluster's capacity."""
    EXCEEDS_HARD: Final = "MaxExceedsHard"
    """`max`, or `min` without a `max`, exceeds `hard` of a ResourceQuota; the message names both amounts."""
    WITHIN_HARD: Final = "WithinHard"
    """Neither `max` nor `min` exceeds `hard` of a ResourceQuota any more."""


class ReservationReason:
    """Reasons of Active of AdvanceReservations."""

    HELD: Final = "Held"
    """The nodes are held; the message counts them, and names workloads that run beyond the start."""
    OVER: Final = "Over"
    """The end has passed; the nodes are free for all."""
    INVALID: Final = "Invalid"
    """The reservation breaks a rule; the message names the field."""


class JobKindReason:
    """Reasons of Active of JobKinds."""

    MANAGED: Final = "Managed"
    """Jobs of the kind that name a queue are managed."""
    INVALID: Final = "Invalid"
    """The declaration breaks a rule; the message names the field."""
    PENDING: Final = "Pending"
    """The controller has not read the declaration yet."""
    CANNOT_READ: Final = "CannotRead"
    """The controller may not read the kind: its ClusterRoles are missing."""
    NOT_SERVED: Final = "NotServed"
    """The kind's CRD is not installed."""


class FieldsHonouredReason:
    """Reasons of stowage.dev/FieldsHonoured."""

    NOT_SUPPORTED: Final = "NotSupportedYet"
    """Fields are set that have no effect."""
    ALL_HONOURED: Final = "AllHonoured"
    """Every field that is set has an effect."""


class GangStartedReason:
    """Reasons of Started of PodGroups, besides those of QuotaReserved."""

    ADMITTED: Final = "Admitted"
    """The gang has quota, and its pods were started."""
    WAITING_FOR_PODS: Final = "WaitingForPods"
    """The gang has fewer pods than its minimum, or its Workload is about to be created."""
