"""Who holds the token of one of our processes may write what that process writes, and no more: config/rbac/*policies.yaml.

Each attempt uses the account's own token on a real control plane; the embedded server has no ValidatingAdmissionPolicy. That
the processes can still do their work is shown by every scenario on a real control plane, which runs under the same accounts.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from api.errors import ApiError
from api.kube.client import Kube, PatchKind
from api.kube.resources import CRDS, JOBS, MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_WEBHOOKS, Resource
from api.kube.settings import ClientSettings
from api.names import ADMISSION_GATE, JOB_TRACKING_FINALIZER, MANAGED_FINALIZER, PODSET_LABEL, TOPOLOGY_GATE
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

SYSTEM = "kube-system"
UNQUEUED = "unqueued"
"""A namespace without a default queue, which other attacks give to the tenant's: pods with gates made by hand would queue."""
STRANGER, OURS, GATED, FIELDS = "stranger", "ours", "gated", "fields"
"""Names of the pods: without a label of ours, with one, with gates, and one whose fields are written."""
MUTATING, VALIDATING = "stowage-mutating-webhook-configuration", "stowage-validating-webhook-configuration"
DECLARED = "mdeclared.stowage.dev"


@dataclass(frozen=True)
class Attempt:
    """A write of the account. `patch` is a strategic merge patch, or a JSON patch if it is a list; None deletes the object."""

    account: str
    name: str
    patch: Any
    refused: str
    namespace: str | None = UNQUEUED
    resource: Resource = PODS
    subresource: str | None = None

    async def tried(self, kube: Kube) -> None:
        """Raises what the API server answers."""
        if self.patch is None:
            await kube.delete(self.resource, self.name, self.namespace)
            return
        kind = PatchKind.JSON if isinstance(self.patch, list) else PatchKind.STRATEGIC
        if self.resource is CRDS:
            kind = PatchKind.MERGE
        await kube.patch(self.resource, self.name, self.patch, self.namespace, kind=kind, subresource=self.subresource)


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def meta(**fields: Any) -> dict[str, Any]:
    return {"metadata": fields}


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


def without(*gates: str) -> dict[str, Any]:
    return spec(schedulingGates=[{"name": gate, "$patch": "delete"} for gate in gates])


IMAGE = spec(containers=[{"name": "main", "image": "evil"}])
TOLERATION = {"key": "gpu", "operator": "Exists"}
BOTH = ("controller", "ungater")
UNLABELLED, NO_IMAGE = "without a label or annotation", "no image and no deadline"
GUARDED = f"no pods in namespace|{UNLABELLED}|{NO_IMAGE}"
"""Two policies refuse these; which one the API server tells first is open."""

PODS_REFUSED = {
    **{f"{one}: image in kube-system": Attempt(one, STRANGER, IMAGE, GUARDED, SYSTEM) for one in BOTH},
    **{f"{one}: our label in kube-system": Attempt(one, OURS, IMAGE, GUARDED, SYSTEM) for one in BOTH},
    **{f"{one}: image of a stranger": Attempt(one, STRANGER, IMAGE, UNLABELLED) for one in BOTH},
    **{f"{one}: image of a pod of ours": Attempt(one, OURS, IMAGE, NO_IMAGE) for one in BOTH},
    **{f"{one}: image of a gated pod": Attempt(one, GATED, IMAGE, NO_IMAGE) for one in BOTH},
    **{f"{one}: a deadline": Attempt(one, OURS, spec(activeDeadlineSeconds=1), NO_IMAGE) for one in BOTH},
    **{f"{one}: a gate of others": Attempt(one, GATED, without("other/gate"), "no gate but its own") for one in BOTH},
    **{f"{one}: a label of others": Attempt(one, OURS, meta(labels={"app": "b"}), "no label of a pod") for one in BOTH},
    **{
        f"{one}: an annotation of others": Attempt(one, OURS, meta(annotations={"a": "b"}), "no annotation of a pod")
        for one in BOTH
    },
    **{
        f"{one}: a finalizer of others": Attempt(
            one, GATED, meta(**{"$deleteFromPrimitiveList/finalizers": ["other/one"]}), "no finalizer of a pod"
        )
        for one in BOTH
    },
    **{
        f"{one}: a finalizer of its own making": Attempt(one, OURS, meta(finalizers=["a.b/c"]), "no finalizer of a pod")
        for one in BOTH
    },
    **{
        f"{one}: another owner": Attempt(
            one,
            OURS,
            meta(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]),
            "no owner of a pod",
        )
        for one in BOTH
    },
    "ungater: the admission gate": Attempt("ungater", GATED, without(ADMISSION_GATE), "no gate but its own"),
    "ungater: our finalizer": Attempt(
        "ungater",
        GATED,
        meta(**{"$deleteFromPrimitiveList/finalizers": [MANAGED_FINALIZER]}),
        "no finalizer of a pod",
    ),
    "ungater: a toleration": Attempt(
        "ungater",
        GATED,
        [{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}],
        "tolerations only",
    ),
    "controller: a toleration of a running pod": Attempt(
        "controller",
        OURS,
        [{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}],
        "tolerations only",
    ),
    "controller: deletes in kube-system": Attempt(
        "controller", STRANGER, None, "no pods in namespace|deletes no pod", SYSTEM
    ),
    "controller: deletes a stranger": Attempt("controller", STRANGER, None, "deletes no pod"),
    "controller: suspends in kube-system": Attempt(
        "controller", "job", spec(suspend=True), "no jobs in namespace", SYSTEM, JOBS
    ),
    "controller: fails a stranger": Attempt(
        "controller", STRANGER, status(phase="Failed"), "no status of a pod", subresource="status"
    ),
    "controller: an address": Attempt(
        "controller",
        OURS,
        status(podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}]),
        "nothing of a pod's status",
        subresource="status",
    ),
    "controller: readiness": Attempt(
        "controller",
        OURS,
        status(conditions=[{"type": "Ready", "status": "True"}]),
        "no condition of a pod",
        subresource="status",
    ),
    "controller: another phase": Attempt(
        "controller", OURS, status(phase="Succeeded"), "no phase but Failed", subresource="status"
    ),
    "controller: a label with the status": Attempt(
        "controller", OURS, meta(labels={"app": "b"}), "no metadata of a pod", subresource="status"
    ),
}


def hook(path: str, value: Any, refused: str, name: str = MUTATING) -> Attempt:
    """A change of the first webhook; of a value that every webhook has."""
    resource = MUTATING_WEBHOOKS if name == MUTATING else VALIDATING_WEBHOOKS
    patch = [{"op": "add", "path": f"/webhooks/0/{path}", "value": value}]
    return Attempt("webhook", name, patch, refused, None, resource)


def rule(group: str, resource: str, operation: str = "CREATE") -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}


def declared(group: str, resource: str, operation: str = "CREATE") -> Attempt:
    """A rule of the webhook for declared kinds."""
    hooks = {"webhooks": [{"name": DECLARED, "rules": [rule(group, resource, operation)]}]}
    return Attempt("webhook", MUTATING, hooks, "for kinds of jobs only", None, MUTATING_WEBHOOKS)


NOTHING_BUT = "nothing of its webhooks but caBundle"
WEBHOOKS_REFUSED = {
    "a rule for secrets": hook("rules/-", rule("", "secrets"), NOTHING_BUT),
    "a rule for secrets, validating": hook("rules/-", rule("", "secrets"), NOTHING_BUT, VALIDATING),
    "who is left out": hook("namespaceSelector", {}, NOTHING_BUT),
    "which objects": hook("objectSelector", {}, NOTHING_BUT),
    "a failure that passes": hook("failurePolicy", "Ignore", NOTHING_BUT),
    "a condition": hook("matchConditions", [{"name": "a", "expression": "false"}], NOTHING_BUT),
    "another reinvocation": hook("reinvocationPolicy", "Never", "no reinvocationPolicy"),
    "a label": Attempt(
        "webhook", MUTATING, meta(labels={"a": "b"}), "no metadata of a webhook", None, MUTATING_WEBHOOKS
    ),
    "no webhook": Attempt(
        "webhook", VALIDATING, [{"op": "remove", "path": "/webhooks/0"}], "removes and moves", None, VALIDATING_WEBHOOKS
    ),
    "declared: all groups": declared("*", "jobs"),
    "declared: secrets": declared("", "secrets"),
    "declared: roles": declared("rbac.authorization.k8s.io", "clusterroles"),
    "declared: all kinds": declared("example.com", "*"),
    "declared: a subresource": declared("example.com", "jobs/status"),
    "declared: deletions": declared("example.com", "jobs", "DELETE"),
    "a CRD's versions": Attempt(
        "webhook",
        "workloads.kueue.x-k8s.io",
        spec(preserveUnknownFields=False, conversion={"strategy": "None", "webhook": None}),
        "nothing of a CustomResourceDefinition",
        None,
        CRDS,
    ),
    "a CRD's labels": Attempt(
        "webhook", "workloads.kueue.x-k8s.io", meta(labels={"a": "b"}), "no metadata", None, CRDS
    ),
}

ALLOWED = {
    "ungater: the topology gate": Attempt(
        "ungater", FIELDS, {**without(TOPOLOGY_GATE), **meta(labels={PODSET_LABEL: "other"})}, ""
    ),
    "controller: a start": Attempt(
        "controller",
        FIELDS,
        [
            {"op": "replace", "path": "/spec/schedulingGates", "value": [{"name": "other/gate"}]},
            {"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}},
            {"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION},
            {"op": "add", "path": "/metadata/labels/of-a-check", "value": "b"},
            {"op": "add", "path": "/metadata/annotations", "value": {"of-a-check": "b"}},
        ],
        "",
    ),
    "controller: a stop": Attempt(
        "controller",
        FIELDS,
        status(phase="Failed", conditions=[{"type": "TerminationTarget", "status": "True", "reason": "Stopped"}]),
        "",
        subresource="status",
    ),
    "controller: finalizers": Attempt(
        "controller",
        FIELDS,
        meta(**{"$deleteFromPrimitiveList/finalizers": [MANAGED_FINALIZER, JOB_TRACKING_FINALIZER]}),
        "",
    ),
    "controller: a deletion": Attempt("controller", FIELDS, None, ""),
}
"""In this order: each has its own effect on one pod."""


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def attacked(battlefield: Battlefield) -> AsyncIterator[dict[str, Kube]]:
    """The clients of the accounts, and the pods that they shall not write."""
    if not battlefield.on_real_server:
        pytest.skip("the embedded server has no ValidatingAdmissionPolicy")
    containers = [{"name": "main", "image": "honest"}]
    label = {PODSET_LABEL: "main", "app": "a"}
    gates = [{"name": name} for name in (ADMISSION_GATE, TOPOLOGY_GATE, "other/gate")]
    held = [MANAGED_FINALIZER, JOB_TRACKING_FINALIZER, "other/one"]
    unscheduled = {"containers": containers, "schedulerName": "nobody", "tolerations": [{**TOLERATION, "key": "other"}]}
    pods: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        (SYSTEM, STRANGER, {}, unscheduled),
        (SYSTEM, OURS, {"labels": label}, unscheduled),
        (UNQUEUED, STRANGER, {}, unscheduled),
        (UNQUEUED, OURS, {"labels": label}, unscheduled),
        (UNQUEUED, GATED, {"labels": label, "finalizers": held}, {**unscheduled, "schedulingGates": gates}),
        (UNQUEUED, FIELDS, {"labels": label, "finalizers": held}, {**unscheduled, "schedulingGates": gates}),
    ]
    await battlefield.site.make(NAMESPACES, {"metadata": {"name": UNQUEUED}})
    for namespace, name, fields, body in pods:
        await battlefield.site.make(PODS, {"metadata": {"name": name, "namespace": namespace, **fields}, "spec": body})
    job = {"parallelism": 0, "template": {"spec": {**unscheduled, "restartPolicy": "Never"}}}
    await battlefield.site.make(JOBS, {"metadata": {"name": "job", "namespace": SYSTEM}, "spec": job})
    async with contextlib.AsyncExitStack() as stack:
        files = battlefield.stage.processes.kubeconfigs
        clients = {
            name: await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=files[name])))
            for name in ("controller", "ungater", "webhook")
        }

        async def loaded() -> bool:
            """Reports whether the API server has loaded the policies."""
            for key in ("ungater: a deadline", "controller: an address"):
                attempt = PODS_REFUSED[key]
                try:
                    await attempt.tried(clients[attempt.account])
                except ApiError as error:
                    if "Stowage writes" in str(error):
                        continue
                return False
            return True

        await eventually("the policies hold", loaded, seconds=60)
        yield clients
    for namespace, name, _, _ in pods:
        with contextlib.suppress(ApiError):
            none = {"metadata": {"finalizers": None}}
            await battlefield.admin.patch(PODS, name, none, namespace, kind=PatchKind.MERGE)
            await battlefield.admin.delete(PODS, name, namespace)


REFUSED = {**PODS_REFUSED, **WEBHOOKS_REFUSED}


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED.keys())
async def test_a_stolen_token_writes_nothing_that_its_process_does_not(
    attacked: dict[str, Kube], attempt: Attempt
) -> None:
    with pytest.raises(ApiError, match=attempt.refused):
        await attempt.tried(attacked[attempt.account])


async def test_a_process_writes_what_it_needs(attacked: dict[str, Kube]) -> None:
    for attempt in ALLOWED.values():
        await attempt.tried(attacked[attempt.account])
