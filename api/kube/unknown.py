"""Keys of Kueue's Configuration that our processes do not have, and the answer to each. Values only.

None of them is taken and then ignored: each is an error, and this is the part of it that says what there is instead. Called by
environment.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic.alias_generators import to_camel

from api.kube.resources import NOT_MANAGED

UNKNOWN: Final = "no such setting"
_NOT_HERE: Final = "Stowage does not have this"

MANAGED_FRAMEWORKS: Final = (
    "batch/job, jobset.x-k8s.io/jobset, pod, deployment, statefulset, leaderworkerset.x-k8s.io/leaderworkerset, "
    "kubeflow.org/jaxjob, kubeflow.org/paddlejob, kubeflow.org/pytorchjob, kubeflow.org/tfjob, kubeflow.org/xgboostjob"
)

INSTEAD: Final[Mapping[str, str]] = {
    "apiVersion": "the file holds settings alone, it is no object",
    "kind": "the file holds settings alone, it is no object",
    "admissionFairSharing": f"{_NOT_HERE}: admission by past usage",
    "clientConnection": "limits of requests are client.qps and client.burst",
    "controller.groupKindConcurrency": "workers are set by controller.jobWorkers and controller.workloadWorkers",
    "featureGates": f"{_NOT_HERE}: what is there is on, or has a setting of its own "
    "(UnadmittedWorkloadsObservability: controller.legacyWaitReasons)",
    "health": "the address of health and metrics is healthHost and healthPort",
    "integrations.externalFrameworks": f"{_NOT_HERE}: jobs of other controllers are admitted by their pods",
    "integrations.frameworks": f"managed are, always, {MANAGED_FRAMEWORKS}; not managed are {', '.join(NOT_MANAGED)}: "
    "which namespaces are managed is managedJobsNamespaceSelector",
    "internalCertManagement": "who makes certificates is webhook.certificates",
    "leaderElection": "leader election is set by lease",
    "metrics.bindAddress": "the address of health and metrics is healthHost and healthPort",
    "metrics.customLabels": f"{_NOT_HERE}: metrics bear the names of queues and cohorts, and no labels of their objects",
    "metrics.localQueueMetrics.localQueueSelector": "LocalQueues are measured all or none (metrics.localQueueMetrics.enable)",
    "multiKueue": f"{_NOT_HERE}: it admits jobs of one cluster",
    "resources.deviceClassMappings": f"{_NOT_HERE}: devices count as resources of containers",
    "resources.quotaCheckStrategy": f"{_NOT_HERE}: resources that no flavor covers are refused, or excluded by their prefixes",
    "visibilityServer": f"{_NOT_HERE}: a waiting workload's status and `stowage explain` say why it waits",
    "webhook.certDir": "the folder is webhook.certificateDir",
}

_OTHER_FILE: Final = "the ungater and the other two processes have a file each"
_OF_OTHERS: Final = frozenset(("ungater", "placement", "controller", "webhook", "fairSharing", "metrics", "resources"))


def said_of(where: Sequence[Any]) -> str:
    """What is said of a key that is not known, by the parts of its path."""
    path = ".".join(to_camel(part) if isinstance(part, str) and "_" in part else str(part) for part in where)
    if path in INSTEAD:
        return INSTEAD[path]
    return f"{UNKNOWN} of this process: {_OTHER_FILE}" if path in _OF_OTHERS else UNKNOWN
