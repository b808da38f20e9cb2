"""jobset.x-k8s.io JobSets, as the webhook of JobSet 0.12 judges them: defaults, and what may change when.

Suspended before or after the update: of each child's pod template the labels, annotations, node selector, tolerations
and gates may change; nothing else of replicatedJobs, ever. The JobSet controller itself is a worker, not here.
"""

from __future__ import annotations

from api.fake.rules.base import Cluster, Rules, fixed, same
from api.fake.status import Cause, Obj, duplicate, immutable

_TEMPLATE_META = ("labels", "annotations")
_TEMPLATE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")
_IMMUTABLE = ("network", "successPolicy", "managedBy", "coordinator", "startupPolicy", "volumeClaimPolicies")


class JobSetRules(Rules):
    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        _default_network(spec)
        spec.setdefault("successPolicy", {"operator": "All"})
        spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
        for child in spec.get("replicatedJobs") or ():
            child.setdefault("replicas", 1)
            child.setdefault("groupName", "default")
            job = child.setdefault("template", {}).setdefault("spec", {})
            job.setdefault("completionMode", "Indexed")
            pod = job.setdefault("template", {}).setdefault("spec", {})
            pod.setdefault("restartPolicy", "OnFailure")

    def check_create(self, cluster: Cluster, obj: Obj) -> list[Cause]:
        names = [child.get("name") for child in obj["spec"].get("replicatedJobs") or ()]
        repeated = [i for i, name in enumerate(names) if name in names[:i]]
        return [duplicate(f"spec.replicatedJobs[{i}]", {"name": names[i]}) for i in repeated]

    def check_update(self, cluster: Cluster, new: Obj, old: Obj) -> list[Cause]:
        spec, was = new["spec"], old["spec"]
        before, after = was.get("replicatedJobs") or [], spec.get("replicatedJobs") or []
        if (spec.get("suspend") or was.get("suspend")) and len(before) == len(after):
            before = [_with_directives(one, other) for one, other in zip(before, after, strict=True)]
        causes = [] if same(before, after) else [immutable("spec.replicatedJobs", after)]
        return causes + fixed(spec, was, "spec", *_IMMUTABLE)


def _default_network(spec: Obj) -> None:
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)


def _with_directives(was: Obj, new: Obj) -> Obj:
    """The old child with the new one's five mutable fields."""
    job, template = was["template"]["spec"], was["template"]["spec"]["template"]
    given = new.get("template", {}).get("spec", {}).get("template", {})
    meta = {**template.get("metadata", {}), **{name: given.get("metadata", {}).get(name) for name in _TEMPLATE_META}}
    pod = {**template["spec"], **{name: given.get("spec", {}).get(name) for name in _TEMPLATE_SPEC}}
    job = {**job, "template": {**template, "metadata": meta, "spec": pod}}
    return {**was, "template": {**was["template"], "spec": job}}
