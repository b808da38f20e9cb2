"""The pod that a Workload is of, for those who look at the pod: they see a gate and no Workload.

Called by wait_reasons.py for reasons that a cycle found, and by lifecycle_writer.py for those that keep a Workload out of
cycles.
"""

from __future__ import annotations

from api.kube.events import ObjectRef
from api.kube.resources import PODS
from api.meta import find_condition
from api.names import QUOTA_RESERVED
from api.workloads import Workload


def only_pod(workload: Workload) -> ObjectRef | None:
    """Returns the pod that queues by itself, or None."""
    owners = workload.metadata.owner_references
    if len(owners) != 1 or (owners[0].api_version, owners[0].kind) != (PODS.api_version, PODS.kind):
        return None
    return ObjectRef(PODS.api_version, PODS.kind, owners[0].name, workload.metadata.namespace or "", owners[0].uid)


def reason_of_wait(workload: Workload) -> str | None:
    """Returns the reason of QuotaReserved=False, or None."""
    condition = find_condition(workload.status.conditions, QUOTA_RESERVED)
    return condition.reason if condition is not None and condition.status == "False" else None
