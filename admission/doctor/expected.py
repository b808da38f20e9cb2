"""What the shipped manifests install: CRDs, webhooks, rights. Read from the folder `config`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from api.kube.resources import POLICIES, POLICY_BINDINGS
from api.text.manifests import parsed

Obj = dict[str, Any]
_BUILT_IN: Final[Mapping[str, Sequence[Obj]]] = {
    "system:auth-delegator": (
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    )
}
"""Rules of the API server's own roles that the manifests bind."""
_SHIPPED: Final = "stowage-system"
"""The namespace in the manifests."""
_CLUSTER_ROLE, _ROLE = "ClusterRole", "Role"
_ROLES: Final = frozenset((_CLUSTER_ROLE, _ROLE))


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource (`resource/subresource`) for a ServiceAccount.

    An empty namespace means all namespaces, an empty name every object. `file` has the manifest that grants it.
    """

    account: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    file: str = field(default="", compare=False)

    def attributes(self) -> dict[str, str]:
        """Returns the resourceAttributes of a SubjectAccessReview."""
        resource, _, subresource = self.resource.partition("/")
        given = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        return {**given, "namespace": self.namespace, "name": self.name}

    def __str__(self) -> str:
        where = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {where}{f' {self.name}' if self.name else ''}"


@dataclass(frozen=True, slots=True)
class Expected:
    """The shipped objects."""

    folder: Path
    crds: Mapping[Path, Obj]
    """By path of their file."""
    webhooks: Mapping[Path, Obj]
    """By path of their file."""
    policies: Sequence[tuple[Path, Obj]]
    """With their bindings, and the path of their file."""
    rights: tuple[Right, ...]
    """Those that are needed always."""
    certificates: tuple[Right, ...]
    """Those that the component selfsigned needs."""
    retention: tuple[Right, ...]
    """Those that the component retention needs."""
    metrics: tuple[Right, ...]
    """Those that the component metricsauth needs."""


def expected(folder: Path, namespace: str) -> Expected:
    """Reads the manifests. `namespace` replaces that of the manifests. Raises OSError."""
    crds = dict(_objects(folder / "crd", "CustomResourceDefinition"))
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    webhooks = dict(_objects(folder / "webhook", *kinds, namespace=namespace))
    policies = list(_objects(folder / "rbac", POLICIES.kind, POLICY_BINDINGS.kind, namespace=namespace))
    of = {name: tuple(_rights(folder / name, namespace)) for name in ("rbac", "selfsigned", "retention", "metricsauth")}
    return Expected(folder, crds, webhooks, policies, *of.values())


def _objects(folder: Path, *kinds: str, namespace: str = _SHIPPED) -> Iterator[tuple[Path, Obj]]:
    """Yields the objects of these kinds, with the namespace in place of that of the manifests, also inside of expressions."""
    for path in sorted(folder.glob("*.yaml")):
        objects = parsed(path.read_text().replace(_SHIPPED, namespace))
        yield from ((path, obj) for obj in objects if obj.get("kind") in kinds)


def _rights(folder: Path, namespace: str) -> Iterator[Right]:
    kinds = (_CLUSTER_ROLE, _ROLE, "ClusterRoleBinding", "RoleBinding")
    yield from granted([(str(path), obj) for path, obj in _objects(folder, *kinds)], namespace)


def granted(objects: Sequence[tuple[str, Obj]], namespace: str) -> Iterator[Right]:
    """Yields the rights that bindings grant to ServiceAccounts of the namespace, with the file of the role.

    `objects` are roles and bindings, each with its file. Roles that are collected by label (aggregation) grant none here.
    """
    roles = {(obj["kind"], obj["metadata"]["name"]): (file, obj) for file, obj in objects if obj["kind"] in _ROLES}
    for bound, binding in objects:
        if binding["kind"] in _ROLES:
            continue
        ref = binding["roleRef"]
        file, role = roles.get((ref["kind"], ref["name"]), (bound, {"rules": _BUILT_IN.get(ref["name"], ())}))
        where = namespace if binding["kind"] == "RoleBinding" else ""
        for subject in binding.get("subjects") or ():
            if subject.get("kind") == "ServiceAccount":
                yield from _of_rules(subject["name"], role.get("rules") or (), where, file)


def _of_rules(account: str, rules: Iterable[Mapping[str, Any]], namespace: str, file: str) -> Iterator[Right]:
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule.get("verbs") or ():
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(account, verb, group, resource, namespace, name, file)
