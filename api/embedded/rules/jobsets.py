"""Rules of JobSets (jobset.x-k8s.io), as the webhook of JobSet 0.12 has them: defaults, and which fields may change when.

If suspended before or after the update, the labels, annotations, node selector, tolerations and gates of each child's pod
template may change; nothing else of replicatedJobs ever. The JobSet controller is a worker.
"""

from __future__ import annotations

from api.embedded.rules.base import ClusterLookup, StorageRules, fixed, same
from api.embedded.status import Cause, Obj, duplicate, immutable

_TEMPLATE_META = ("labels", "annotations")
_TEMPLATE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")
# The CRD's CEL rules fix these once set; the webhook fixes the others.
_CEL_IMMUTABLE = ("failurePolicy", "network", "startupPolicy", "successPolicy", "volumeClaimPolicies")
_IMMUTABLE = ("managedBy", "coordinator")


class JobSetRules(StorageRules):
    webhook = "vjobset.kb.io"

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        _default_network(spec)
        spec.setdefault("successPolicy", {"operator": "All"})
        spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
        for child in spec.get("replicatedJobs") or ():
            child.setdefault("replicas", 1)
            child.setdefault("groupName", "default")
            _default_job(child.setdefault("template", {}))
        if spec.get("failurePolicy") is not None:
            spec["failurePolicy"].setdefault("restartStrategy", "Recreate")

    def check_create(self, cluster: ClusterLookup, obj: Obj) -> list[Cause]:
        names = [child.get("name") for child in obj["spec"].get("replicatedJobs") or ()]
        repeated = [i for i, name in enumerate(names) if name in names[:i]]
        return [duplicate(f"spec.replicatedJobs[{i}]", {"name": names[i]}) for i in repeated]

    def check_transition(self, new: Obj, old: Obj) -> list[Cause]:
        spec, was = new["spec"], old["spec"]
        return [
            Cause("FieldValueInvalid", "Invalid value: Value is immutable", f"spec.{name}")
            for name in _CEL_IMMUTABLE
            if name in spec and name in was and not same(spec[name], was[name])
        ]

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        spec, was = new["spec"], old["spec"]
        before, after = was.get("replicatedJobs") or [], spec.get("replicatedJobs") or []
        if (spec.get("suspend") or was.get("suspend")) and len(before) == len(after):
            before = [_with_directives(one, other) for one, other in zip(before, after, strict=True)]
        causes = [] if same(before, after) else [immutable("spec.replicatedJobs", after)]
        return causes + fixed(spec, was, "spec", *_IMMUTABLE)


def _default_job(template: Obj) -> None:
    template.setdefault("metadata", {})
    job = template.setdefault("spec", {})
    job.setdefault("completionMode", "Indexed")
    job.setdefault("template", {}).setdefault("metadata", {})
    pod = job["template"].setdefault("spec", {})
    pod.setdefault("restartPolicy", "OnFailure")
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        container.setdefault("resources", {})


def _default_network(spec: Obj) -> None:
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)


def _with_directives(was: Obj, new: Obj) -> Obj:
    """Returns the old child with the new one's five mutable fields."""
    job, template = was["template"]["spec"], was["template"]["spec"]["template"]
    given = new["template"]["spec"]["template"]
    meta = _replaced(template.get("metadata") or {}, given.get("metadata") or {}, _TEMPLATE_META)
    pod = _replaced(template["spec"], given["spec"], _TEMPLATE_SPEC)
    job = {**job, "template": {**template, "metadata": meta, "spec": pod}}
    return {**was, "template": {**was["template"], "spec": job}}


def _replaced(was: Obj, new: Obj, names: tuple[str, ...]) -> Obj:
    rest = {name: value for name, value in was.items() if name not in names}
    return rest | {name: new[name] for name in names if name in new}
