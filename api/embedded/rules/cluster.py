"""Rules of namespaces, secrets, priority classes, CRDs and webhook configurations that others depend on."""

from __future__ import annotations

from base64 import b64encode

from api.embedded.rules.base import ClusterLookup, StorageRules, fixed
from api.embedded.status import Cause, Obj, invalid_value, required
from api.names import NAMESPACE_NAME_LABEL

_ACCEPTED = "the initial names have been accepted"


class NamespaceRules(StorageRules):
    def prepare_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **_name_label(obj)}

    def prepare_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> None:
        new["spec"] = old["spec"]
        new["metadata"]["labels"] = {**(new["metadata"].get("labels") or {}), **_name_label(new)}


def _name_label(obj: Obj) -> dict[str, str]:
    return {NAMESPACE_NAME_LABEL: obj["metadata"]["name"]}


class SecretRules(StorageRules):
    def default(self, obj: Obj) -> None:
        """Sets the default type, and moves stringData into `data`."""
        obj.setdefault("type", "Opaque")
        for name, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[name] = b64encode(text.encode()).decode()


class PriorityClassRules(StorageRules):
    def default(self, obj: Obj) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        return [
            Cause("FieldValueForbidden", "Forbidden: may not be changed in an update.", name)
            for name in ("value", "preemptionPolicy")
            if new.get(name) != old.get(name)
        ]


class CrdRules(StorageRules):
    def prepare_create(self, cluster: ClusterLookup, obj: Obj) -> None:
        """Accepts the names at once, because no other server must agree."""
        now, names = cluster.now(), dict(obj["spec"]["names"])
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
        obj["spec"]["names"] = names
        obj["spec"].setdefault("conversion", {"strategy": "None"})
        conditions = [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": _ACCEPTED},
        ]
        stored = [version["name"] for version in obj["spec"]["versions"] if version.get("storage")]
        obj["status"] = {
            "conditions": [{**item, "lastTransitionTime": now} for item in conditions],
            "acceptedNames": names,
            "storedVersions": stored,
        }

    def prepare_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> None:
        new["spec"]["names"] = {**old["spec"]["names"], **new["spec"]["names"]}
        new["spec"].setdefault("conversion", {"strategy": "None"})

    def check_create(self, cluster: ClusterLookup, obj: Obj) -> list[Cause]:
        spec = obj["spec"]
        causes = [required(f"spec.{name}") for name in ("group", "scope") if not spec.get(name)]
        wanted = f"{spec['names']['plural']}.{spec.get('group')}"
        if obj["metadata"]["name"] != wanted:
            causes.append(
                invalid_value("metadata.name", obj["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
            )
        if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
            why = "must have exactly one version marked as storage version"
            causes.append(invalid_value("spec.versions", spec["versions"], why))
        return causes

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        return fixed(new["spec"], old["spec"], "spec", "scope", "group")


class WebhookRules(StorageRules):
    def default(self, obj: Obj) -> None:
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if obj.get("kind", "").startswith("Mutating"):
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            if service := (hook.get("clientConfig") or {}).get("service"):
                service.setdefault("port", 443)

    def check_create(self, cluster: ClusterLookup, obj: Obj) -> list[Cause]:
        causes: list[Cause] = []
        for i, hook in enumerate(obj.get("webhooks") or ()):
            needed = ("name", "sideEffects", "admissionReviewVersions")
            causes += [required(f"webhooks[{i}].{name}") for name in needed if not hook.get(name)]
            timeout = hook["timeoutSeconds"]
            if not 1 <= timeout <= 30:
                why = "the timeout value must be between 1 and 30 seconds"
                causes.append(invalid_value(f"webhooks[{i}].timeoutSeconds", timeout, why))
        return causes

    def check_update(self, cluster: ClusterLookup, new: Obj, old: Obj) -> list[Cause]:
        return self.check_create(cluster, new)
