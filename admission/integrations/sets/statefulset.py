"""The adapter of apps/v1 StatefulSet: one group with one pod set `main`, ranked by the ordinals of its pods.

Scaled to zero, a StatefulSet puts its Workload on hold: the Workload keeps its name and history but holds no quota. If
ordinals do not start at 0, an annotation on each pod states the first ordinal, so that the first pod has rank 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from admission.integrations.names import workload_name
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.podset import kept_template
from admission.integrations.sets.replica_groups import PodMembership, ReplicaGroup, count_of
from api import names
from api.annotations.requests import topology_request
from api.kube.resources import STATEFUL_SETS, Resource
from api.workloads import PodSet

MAIN: Final = "main"


class StatefulSet:
    """The adapter of StatefulSet; SetKind documents the methods."""

    framework: Final = "statefulset"
    resource: Final[Resource] = STATEFUL_SETS
    needs_pod: Final = False

    def groups(
        self,
        obj: Mapping[str, Any],
        present: Collection[int],
        *,
        topology: bool = True,
        short: bool = False,
        example: Mapping[str, Any] | None = None,
    ) -> tuple[ReplicaGroup, ...]:
        """See SetKind."""
        spec, workload = obj.get("spec") or {}, _workload(obj, short)
        replicas = count_of(spec, "replicas")
        if replicas < 1:
            return (ReplicaGroup(0, workload, on_hold=True),)
        template = _with_claims(kept_template(spec.get("template") or {}), spec.get("volumeClaimTemplates"))
        fields: dict[str, Any] = {"name": MAIN, "template": template, "count": replicas}
        if topology:
            annotations = (obj.get("metadata") or {}).get("annotations")
            fields["topology_request"] = topology_request(
                template["metadata"].get("annotations"),
                job_annotations=annotations,
                pod_index_label=names.STATEFULSET_POD_INDEX,
            )
        return (ReplicaGroup(0, workload, (PodSet(**fields),)),)

    def may_resize(self, obj: Mapping[str, Any]) -> bool:
        """See SetKind."""
        return False

    def set_of(self, pod: QueuedPod) -> str:
        """See SetKind."""
        return pod.owner

    def index_of(self, pod: QueuedPod) -> int | None:
        """See SetKind."""
        return 0

    def membership(self, obj: Mapping[str, Any], pod: QueuedPod, *, short: bool = False) -> PodMembership | None:
        """See SetKind."""
        start = ((obj.get("spec") or {}).get("ordinals") or {}).get("start") or 0
        rank = {names.POD_GROUP_INDEX_SOURCE: names.STATEFULSET_POD_INDEX}
        offset = {names.POD_INDEX_OFFSET: str(start)} if start else {}
        return PodMembership(_workload(obj, short), MAIN, {**rank, **offset})


def _with_claims(template: dict[str, Any], claims: Any) -> dict[str, Any]:
    """Adds the set's volume claim templates to the pod template, as ephemeral volumes.

    This lets placement check where the claims can be bound. As in a StatefulSet, a claim replaces a volume of the same name.
    """
    lasting = {"annotations": {names.LASTING_CLAIM: "true"}}
    made = [
        {
            "name": claim["metadata"]["name"],
            "ephemeral": {"volumeClaimTemplate": {"metadata": lasting, "spec": claim.get("spec") or {}}},
        }
        for claim in claims or ()
    ]
    if not made:
        return template
    taken = {volume["name"] for volume in made}
    others = [volume for volume in template["spec"].get("volumes") or () if volume.get("name") not in taken]
    return {**template, "spec": {**template["spec"], "volumes": [*others, *made]}}


def _workload(obj: Mapping[str, Any], short: bool) -> str:
    meta = obj["metadata"]
    return workload_name(STATEFUL_SETS, meta["name"], meta.get("uid", ""), short=short)
