"""Objects that must be taken as they are: by the generated schemas, by our types, and by the real API server (tests/e2e)."""

from __future__ import annotations

import pytest

from tests.hack.objects import (
    BLOCK,
    GATED,
    HOST,
    RACK,
    WORKLOAD_CLASS,
    cluster_queue,
    condition,
    elastic_quota,
    flavor,
    group,
    make,
    merged,
    pod_group,
    pod_set,
    quota,
    reserved_workload,
    topology,
    workload,
)

VALID = [
    pytest.param(topology(BLOCK, RACK, HOST), id="topology with hostname last"),
    pytest.param(make("ResourceFlavor", "empty"), id="flavor without spec"),
    pytest.param(flavor(nodeLabels={"a": "b"}, topologyName="tree"), id="flavor by topology name"),
    pytest.param(flavor(nodeLabels={"a": "b"}, topology={"levels": [BLOCK, RACK]}), id="flavor with inline levels"),
    pytest.param(
        flavor(
            nodeTaints=[{"key": "gpu", "value": "x", "effect": "NoSchedule"}],
            tolerations=[
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"operator": "Exists"},
                {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
            ],
        ),
        id="flavor with taints and tolerations",
    ),
    pytest.param(
        cluster_queue(
            cohortName="all",
            queueingStrategy="StrictFIFO",
            resourceGroups=[
                group(
                    quota("cpu", nominalQuota="1500m", borrowingLimit="2", lendingLimit=0),
                    quota("memory", nominalQuota="36Gi"),
                    covered=("cpu", "memory"),
                ),
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [
                        {"name": "a", "resources": [quota("nvidia.com/gpu")]},
                        {"name": "b.c", "resources": [quota("nvidia.com/gpu")]},
                    ],
                },
            ],
            namespaceSelector={
                "matchLabels": {"team": "a"},
                "matchExpressions": [{"key": "x", "operator": "In", "values": ["1"]}],
            },
            flavorFungibility={
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
                "preference": "PreemptionOverBorrowing",
            },
            preemption={
                "reclaimWithinCohort": "Any",
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
            },
            admissionChecksStrategy={"admissionChecks": [{"name": "c1"}, {"name": "c2", "onFlavors": ["a"]}]},
            stopPolicy="HoldAndDrain",
            fairSharing={"weight": "500m"},
            admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"},
        ),
        id="queue with every policy",
    ),
    pytest.param(cluster_queue(concurrentAdmissionPolicy=GATED), id="queue with concurrent admission"),
    pytest.param(
        cluster_queue()
        | {
            "status": {
                "conditions": [condition("Active")],
                "flavorsReservation": [
                    {"name": "default", "resources": [{"name": "cpu", "total": "1", "borrowed": 0}]}
                ],
                "flavorsUsage": [],
                "pendingWorkloads": 1,
                "reservingWorkloads": 2,
                "admittedWorkloads": 3,
                "fairSharing": {"weightedShare": 9223372036854775807},
            }
        },
        id="queue with status",
    ),
    pytest.param(
        make("LocalQueue", "lq", "default", spec={"clusterQueue": "cq", "stopPolicy": "Hold", "fairSharing": {}}),
        id="local queue",
    ),
    pytest.param(make("Cohort", "empty"), id="cohort without spec"),
    pytest.param(
        make("Cohort", "co", spec={"parentName": "root", "resourceGroups": [group(quota(borrowingLimit=1))]}),
        id="cohort with quota and parent",
    ),
    pytest.param(
        elastic_quota(min={"cpu": "2", "nvidia.com/gpu": "4"}, max={"nvidia.com/gpu": "8"}), id="elastic quota"
    ),
    pytest.param(elastic_quota("scheduling.sigs.k8s.io"), id="elastic quota without limits, in the older group"),
    pytest.param(
        pod_group(minMember=5, scheduleTimeoutSeconds=60, minResources={"nvidia.com/gpu": 8, "cpu": "500m"}),
        id="pod group",
    ),
    pytest.param(pod_group("scheduling.sigs.k8s.io", minMember=1), id="pod group in the older group"),
    pytest.param(make("WorkloadPriorityClass", "high", value=1000, description="first"), id="priority class"),
    pytest.param(
        make(
            "AdmissionCheck",
            "check",
            spec={
                "controllerName": "example.com/c",
                "parameters": {"apiGroup": "example.com", "kind": "Config", "name": "c"},
            },
        ),
        id="admission check",
    ),
    pytest.param(
        workload(
            "every-field",
            pod_set(
                "leader",
                count=1,
                topologyRequest={"required": BLOCK, "podIndexLabel": "i", "podSetGroupName": "group"},
            ),
            pod_set(
                "workers",
                minCount=2,
                topologyRequest={
                    "preferred": RACK,
                    "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
                    "subGroupCount": 2,
                    "podSetSliceRequiredTopology": HOST,
                    "podSetSliceSize": 1,
                    "podSetGroupName": "group",
                },
            ),
            pod_set(
                "layers",
                topologyRequest={
                    "unconstrained": True,
                    "podsetSliceRequiredTopologyConstraints": [
                        {"topology": BLOCK, "size": 4},
                        {"topology": RACK, "size": 2},
                    ],
                },
            ),
            priorityClassRef=WORKLOAD_CLASS,
            priority=-5,
            active=False,
            maximumExecutionTimeSeconds=60,
            preemptionGates=[{"name": "gate"}],
        ),
        id="workload with every spec field",
    ),
    pytest.param(
        merged(
            reserved_workload(admitted=True),
            {
                "status": {
                    "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"},
                    "reclaimablePods": [{"name": "main", "count": 1}],
                    "admissionChecks": [
                        {
                            "name": "check",
                            "state": "Retry",
                            "message": "later",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                            "requeueAfterSeconds": 5,
                            "retryCount": 1,
                            "podSetUpdates": [
                                {
                                    "name": "main",
                                    "labels": {"a": "b"},
                                    "annotations": {"a": "b"},
                                    "nodeSelector": {"a": "b"},
                                    "tolerations": [{"key": "k", "operator": "Exists"}],
                                }
                            ],
                        }
                    ],
                    "resourceRequests": [{"name": "main", "resources": {"cpu": "3"}}],
                    "accumulatedPastExecutionTimeSeconds": 7,
                    "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
                    "nominatedClusterNames": ["w1", "w2"],
                    "unhealthyNodes": [{"name": "n-1"}],
                    "preemptionGates": [
                        {"name": "gate", "position": "Open", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                    ],
                }
            },
        ),
        id="workload with every status field",
    ),
]
