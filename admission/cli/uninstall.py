"""`stowage uninstall`: removes Stowage in an order that leaves no object stuck on a finalizer. Asks first.

`kubectl delete -k config/default` deletes the processes together with the CRDs; no controller then removes the finalizers of
their objects, and the deletion never completes. The order here: webhook configurations and APIServices (so that nothing blocks
writes or the deletion of namespaces), Deployments and their pods (so that nothing adds a finalizer), finalizers, CRDs, RBAC and
whatever else has our label, namespace. With `keep_crds` the queues and Workloads stay, for the Kueue that takes over.

A controller that still runs would see its queues go and suspend the jobs that run. So nothing is removed while a process
outside of the cluster renews a Lease, and no queue while any process does.

Exit codes: 0 when all is removed, 1 when the user declined, 2 when something could not be removed. It may be run again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from admission.cli.connection import connect, worded
from api.conversion import CONVERTED
from api.errors import NotFound, StowageError
from api.kube.client import Kube, PatchKind
from api.kube.resources import (
    ALL,
    API_SERVICES,
    CLUSTER_QUEUES,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    VALIDATING_WEBHOOKS,
    WORKLOADS,
    Resource,
)
from api.names import (
    AGGREGATE_TO_CONTROLLER,
    AGGREGATE_TO_WEBHOOK,
    GROUP,
    IN_USE_FINALIZER,
    MANAGED_FINALIZER,
    MANAGED_LABEL,
)

REMOVED, KEPT, NOT_REMOVED = 0, 1, 2
OURS = "app.kubernetes.io/name=stowage"
_RBAC = "rbac.authorization.k8s.io"
_HELD = tuple(resource for resource in ALL if resource.group == GROUP)
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
_FLOW = "flowcontrol.apiserver.k8s.io"
_CLUSTER_WIDE = (
    Resource(_FLOW, "v1", "flowschemas", "FlowSchema", namespaced=False),
    Resource(_FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False),
    POLICY_BINDINGS,
    POLICIES,
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    CLUSTER_ROLES,
)
_IN_OTHER_NAMESPACES = (
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(_RBAC, "v1", "roles", "Role"),
)
_PATIENCE, _PAUSE = 120.0, 0.5
_LONGEST_LEASE = 60.0
"""Seconds that a Lease is watched at most, whatever it says."""


@dataclass(frozen=True, slots=True)
class UninstallArguments:
    """Arguments of the command."""

    namespace: str
    keep_crds: bool = False
    kubeconfig: Path | None = None
    context: str | None = None


def run(arguments: UninstallArguments, confirm: Callable[[str], bool], out: Console | None = None) -> int:
    """Runs the command and returns its exit code. `confirm` gets a description of what would be removed."""
    out = out or Console()
    try:
        return asyncio.run(_run(arguments, confirm, out))
    except (StowageError, TimeoutError) as failed:
        text = f"not removed: {worded(failed)}; run it again to go on"
        out.print(text, style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_REMOVED


async def _run(arguments: UninstallArguments, confirm: Callable[[str], bool], out: Console) -> int:
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        await _no_process_outside(kube, arguments.namespace)
        if not confirm(await _announce(kube, arguments)):
            return KEPT
        # The APIServices too: while one is there without a server, no namespace can be deleted.
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, API_SERVICES):
            await _delete_ours(kube, resource, out)
        await _stop_processes(kube, arguments.namespace, out)
        await _no_process(kube, arguments.namespace)
        await _stop_converting(kube, keep=CONVERTED if arguments.keep_crds else frozenset())
        if not arguments.keep_crds:
            await _remove_finalizers(kube, out)
            await _delete_ours(kube, CRDS, out)
        for resource in _CLUSTER_WIDE:
            await _delete_ours(kube, resource, out)
        for label in (AGGREGATE_TO_CONTROLLER, AGGREGATE_TO_WEBHOOK):
            await _delete_ours(kube, CLUSTER_ROLES, out, selector=f"{label}=true")
        for resource in _IN_OTHER_NAMESPACES:
            namespaces = {obj["metadata"]["namespace"] for obj in await _list_ours(kube, resource)}
            for namespace in sorted(namespaces - {arguments.namespace}):
                await _delete_ours(kube, resource, out, namespace)
        await _delete(kube, NAMESPACES, arguments.namespace, None, out)
        await _wait_until_gone(
            f"namespace {arguments.namespace}", lambda: _exists(kube, NAMESPACES, arguments.namespace)
        )
    return REMOVED


async def _announce(kube: Kube, arguments: UninstallArguments) -> str:
    what = f"This removes Stowage (namespace {arguments.namespace})"
    waiting = "Pods that run go on; jobs that wait stay suspended, and pods that wait stay gated."
    if arguments.keep_crds:
        return f"{what}. The CRDs, queues and Workloads stay. {waiting}"
    crds = len(await _list_ours(kube, CRDS))
    counts = [f"{len(await _list_all(kube, each))} {each.kind}s" for each in (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES)]
    return f"{what}, {crds} CRDs and with them {', '.join(counts)} and all other objects of these kinds. {waiting}"


async def _no_process_outside(kube: Kube, namespace: str) -> None:
    """Raises StowageError if a process that is no pod of the namespace renews a Lease there."""
    pods = [pod["metadata"]["name"] for pod in await _list_all(kube, PODS, namespace)]
    outside = {
        lease["metadata"]["name"]
        for lease in await _held_leases(kube, namespace)
        if _holder(lease).rpartition("_")[0] not in pods
    }
    await _not_renewed(kube, namespace, outside)


async def _no_process(kube: Kube, namespace: str) -> None:
    """Raises StowageError if a process renews a Lease of the namespace."""
    await _not_renewed(kube, namespace, {lease["metadata"]["name"] for lease in await _held_leases(kube, namespace)})


async def _not_renewed(kube: Kube, namespace: str, names: set[str]) -> None:
    """Watches the Leases of these names for as long as they hold without being renewed. Raises StowageError if one is."""
    first = {lease["metadata"]["name"]: lease for lease in await _held_leases(kube, namespace)}
    waits = {name: min(_duration(lease), _LONGEST_LEASE) for name, lease in first.items() if name in names}
    began = time.monotonic()
    while waits and time.monotonic() - began <= max(waits.values()):
        await asyncio.sleep(_PAUSE)
        for lease in await _held_leases(kube, namespace):
            name = lease["metadata"]["name"]
            if name in waits and lease["spec"].get("renewTime") != first[name]["spec"].get("renewTime"):
                raise StowageError(
                    f"the process {_holder(lease)} still renews the lease {name}. It would suspend the jobs that run when "
                    "their queues go: stop it first"
                )


async def _held_leases(kube: Kube, namespace: str) -> list[dict[str, Any]]:
    """Returns the Leases that have a holder; of a process that ends in order they have none."""
    return [lease for lease in await _list_all(kube, LEASES, namespace) if _holder(lease)]


def _holder(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _duration(lease: dict[str, Any]) -> float:
    return float(lease["spec"].get("leaseDurationSeconds") or 0)


async def _stop_processes(kube: Kube, namespace: str, out: Console) -> None:
    for deployment in await _list_ours(kube, DEPLOYMENTS, namespace):
        await _delete(kube, DEPLOYMENTS, deployment["metadata"]["name"], namespace, out)

    async def left() -> bool:
        return bool(await _list_ours(kube, PODS, namespace))

    await _wait_until_gone(f"pods in {namespace}", left)


async def _stop_converting(kube: Kube, keep: frozenset[str]) -> None:
    """Turns off conversion, whose webhook is gone: objects to delete need none, nor do those of kinds without renamed fields.

    `keep`: kinds whose objects would lose fields. Kueue, which converts these, brings its own webhook for them, and none for
    the others: over one that is left its CRDs could not be applied.
    """
    for crd in await _list_ours(kube, CRDS):
        strategy = (crd["spec"].get("conversion") or {}).get("strategy")
        if strategy == "Webhook" and crd["spec"]["names"]["kind"] not in keep:
            body = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
            await kube.patch(CRDS, crd["metadata"]["name"], body, kind=PatchKind.MERGE)


async def _remove_finalizers(kube: Kube, out: Console) -> None:
    """Removes the finalizers that the controllers would remove."""
    released = 0
    for resource in _HELD:
        for obj in await _list_all(kube, resource):
            released += await _remove_finalizer(kube, resource, obj, IN_USE_FINALIZER)
    for pod in await _list_all(kube, PODS, label_selector=MANAGED_LABEL):
        released += await _remove_finalizer(kube, PODS, pod, MANAGED_FINALIZER)
    out.print(f"released {released} objects", markup=False, highlight=False)


async def _remove_finalizer(kube: Kube, resource: Resource, obj: dict[str, Any], finalizer: str) -> bool:
    meta = obj["metadata"]
    finalizers = meta.get("finalizers") or []
    if finalizer not in finalizers:
        return False
    body = {"metadata": {"finalizers": [name for name in finalizers if name != finalizer]}}
    try:
        await kube.patch(resource, meta["name"], body, meta.get("namespace"), kind=PatchKind.MERGE)
    except NotFound:
        return False
    return True


async def _delete_ours(
    kube: Kube, resource: Resource, out: Console, namespace: str | None = None, *, selector: str = OURS
) -> None:
    names = [obj["metadata"]["name"] for obj in await _list_all(kube, resource, namespace, selector)]
    for name in names:
        await _delete(kube, resource, name, namespace, out)
    for name in names:
        await _wait_until_gone(
            f"{resource.kind} {name}",
            lambda name=name: _exists(kube, resource, name, namespace),  # type: ignore[misc]
        )


async def _delete(kube: Kube, resource: Resource, name: str, namespace: str | None, out: Console) -> None:
    try:
        await kube.delete(resource, name, namespace)
    except NotFound:
        return
    out.print(f"deleted {resource.kind} {name}", markup=False, highlight=False)


async def _list_ours(kube: Kube, resource: Resource, namespace: str | None = None) -> list[dict[str, Any]]:
    return await _list_all(kube, resource, namespace, OURS)


async def _list_all(
    kube: Kube, resource: Resource, namespace: str | None = None, label_selector: str | None = None
) -> list[dict[str, Any]]:
    """Returns all objects, or none if the kind is not served."""
    try:
        return list((await kube.list(resource, namespace, label_selector=label_selector)).items)
    except NotFound:
        return []


async def _exists(kube: Kube, resource: Resource, name: str, namespace: str | None = None) -> bool:
    try:
        await kube.get(resource, name, namespace)
    except NotFound:
        return False
    return True


async def _wait_until_gone(what: str, there: Callable[[], Any]) -> None:
    """Waits until `there` returns false. Raises StowageError after `_PATIENCE` seconds."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if not await there():
            return
        await asyncio.sleep(_PAUSE)
    raise StowageError(f"{what}: still there after {_PATIENCE:.0f} s")
