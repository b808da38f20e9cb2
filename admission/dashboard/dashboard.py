"""What can be asked: each method answers for one viewer and checks what they may see. routes.py calls it.

`run` follows the cluster and publishes changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from cachetools import TTLCache

from admission.dashboard.cluster import Cluster
from admission.dashboard.host_answers import host_items, occupancy, search
from admission.dashboard.questions import BadQuestion, Questions, TooBusy, job_of_form
from admission.dashboard.queues import queues
from admission.dashboard.rows import FINISHED_STATE, PENDING, STATES, Row, Rows
from admission.dashboard.stream import Batch, Clients
from admission.dashboard.trees import Trees
from admission.dashboard.viewer import Permissions, Viewer, hide, share_of
from admission.serving.bounded_server import Refused
from admission.world.documents import Document
from api.errors import InvalidObject, StowageError
from api.meta import object_key, split_key
from api.process.forked import ForkFailed

log = logging.getLogger(__name__)
T = TypeVar("T")

COALESCED: Final = 0.1
"""Seconds between the beginnings of two batches: the changes in between are gathered."""
_TOGETHER: Final = 0.01
"""Seconds within which the first change of a batch is joined by those that came with it."""
DEFAULT_LIMIT, MOST = 10_000, 100_000
_PERMISSIONS_SECONDS: Final = 10.0
_BRIEF: Final = 1.0


def bad_request(field: str, value: object, allowed: str) -> Refused:
    """Returns the refusal of a value: its name, what was given, in bounds, and what is allowed."""
    return Refused(400, "BadRequest", str(InvalidObject(field, value, allowed)))


@dataclass(frozen=True, slots=True)
class Facts:
    """What a page shows of the process: its version, the cluster's name, and how users sign in (none or token)."""

    version: str
    cluster: str
    sign_in: str = "none"


class Dashboard:
    """Answers about one cluster."""

    def __init__(self, cluster: Cluster, facts: Facts) -> None:
        self.cluster, self.facts = cluster, facts
        self.trees, self.questions = Trees(cluster), Questions(cluster)
        self.rows = Rows(cluster, self.trees.leaving.hosts_for)
        self.clients = Clients()
        self._permissions: TTLCache[Viewer, Permissions] = TTLCache(512, _PERMISSIONS_SECONDS)
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._begun = False

    # ---- following the cluster

    async def run(self) -> None:
        """Follows the cluster until cancelled."""
        while self.cluster.missing() is not None:  # noqa: ASYNC110  many informers make it complete
            await asyncio.sleep(COALESCED)
        while True:
            began = time.monotonic()
            try:
                await self.renew()
            except Exception:  # what cannot be shown must not end the process that shows the rest
                log.exception("changes could not be shown")
                await asyncio.sleep(_BRIEF)
            with contextlib.suppress(TimeoutError):
                due = [at for at in (self.trees.due_in(), self.cluster.due_in(time.time())) if at is not None]
                async with asyncio.timeout(min(due, default=None)):
                    await self.cluster.changed.wait()
            # The first change after a pause is published almost at once, those that follow it are gathered.
            await asyncio.sleep(max(_TOGETHER, began + COALESCED - time.monotonic()))

    async def renew(self) -> None:
        """Takes what changed in, and publishes it."""
        await self.cluster.keep_time(time.time())
        changes = self.cluster.take_changes()
        if changes.queues:
            self.rows.queues_changed()
        self.rows.forget(changes.workloads)
        renewed = await self.trees.renew(changes)
        self.rows.forget(renewed.waiting)
        self._begun = True
        if not len(self.clients):
            return
        await self.rows.sort()
        entries = {
            flavor: (tree.version, [tree.entry(at) for at in rows])
            for flavor, rows in renewed.rows.items()
            if (tree := self.trees.by_flavor.get(flavor)) is not None
        }
        rows = {key: self.rows.of(key) for key in sorted(changes.workloads | renewed.waiting)}
        changed = [dict(row) for row in rows.values() if row is not None and row["state"] != FINISHED_STATE]
        removed = [key for key, row in rows.items() if row is None or row["state"] == FINISHED_STATE]
        self.clients.publish(Batch(entries, renewed.structure, changed, removed, queues=changes.queues))

    def begun(self, permissions: Permissions) -> dict[str, Any]:
        """Returns the first event of a stream: a tree that was read before and is older than this lacks changes."""
        trees = {flavor: tree.version for flavor, tree in self.trees.by_flavor.items()} if permissions.nodes else {}
        return {"version": self.trees.version, "trees": trees}

    def missing(self) -> str | None:
        """Returns why there are no answers yet, or None."""
        return self.cluster.missing() or (None if self._begun else "the cluster is being read")

    # ---- what a viewer may see

    async def permissions(self, viewer: Viewer) -> Permissions:
        """Returns what the viewer may see. Raises Refused if the API server does not say."""
        if (why := self.missing()) is not None:
            raise Refused(503, "NotReady", why)
        # Requests of one viewer ask the API server once, which may be thousands of reviews; and each new token of an account is
        # another viewer, so that those of one share come one after the other.
        async with self._asking.setdefault(share_of(viewer.name), asyncio.Lock()):
            permissions = self._permissions.get(viewer)
            if permissions is None:
                try:
                    permissions = await viewer.permissions(self._namespaces())
                except (StowageError, TimeoutError):
                    raise Refused(503, "Unavailable", "the API server does not say what you may see") from None
                self._permissions[viewer] = permissions
        return permissions

    def _namespaces(self) -> list[str]:
        """Returns all namespaces by name, those with a LocalQueue first: of too many, the others are left out."""
        queued = {split_key(key)[0] for key in self.cluster.view.local_queues.objects}
        return sorted(self.cluster.view.namespaces.objects, key=lambda name: (name not in queued, name))

    async def _of_nodes(self, viewer: Viewer) -> Permissions:
        permissions = await self.permissions(viewer)
        if not permissions.nodes:
            raise Refused(403, "Forbidden", f"{viewer.name} may not list nodes, which the topology shows")
        return permissions

    async def _of_namespace(self, viewer: Viewer, namespace: str) -> Permissions:
        permissions = await self.permissions(viewer)
        if not permissions.sees(namespace):
            raise Refused(403, "Forbidden", f"{viewer.name} may not list workloads.kueue.x-k8s.io in {namespace}")
        return permissions

    def _hidden(self, value: Any, permissions: Permissions, own: str = "") -> Any:
        return hide(value, permissions, self.cluster.view.namespaces.objects, own)

    # ---- answers

    async def topologies(self, viewer: Viewer) -> dict[str, Any]:
        """Returns answers.Topologies."""
        await self._of_nodes(viewer)
        trees = sorted(self.trees.by_flavor.items())
        return {
            "flavors": [
                {"name": name, "topology": tree.topology, "levels": list(tree.spec.levels), "hosts": len(tree.names)}
                for name, tree in trees
            ]
        }

    async def tree(self, viewer: Viewer, flavor: str) -> bytes:
        """Returns answers.Tree as JSON."""
        permissions = await self._of_nodes(viewer)
        encoded = await self.trees.encoded(
            flavor, permissions.sees, queues=permissions.queues, reservations=permissions.reservations
        )
        if encoded is None:
            raise Refused(404, "NotFound", f"no flavor {flavor[:253]} with a topology")
        return encoded

    async def host(self, viewer: Viewer, name: str) -> dict[str, Any]:
        """Returns answers.HostAnswer."""
        permissions = await self._of_nodes(viewer)
        items = host_items(self.trees, name, permissions)
        if not items:
            raise Refused(404, "NotFound", f"no host {name[:253]} in a topology")
        return {"items": items}

    async def occupancy(self, viewer: Viewer) -> dict[str, Any]:
        """Returns answers.Occupancy."""
        await self._of_nodes(viewer)
        return {"flavors": occupancy(self.trees)}

    async def queues(self, viewer: Viewer) -> dict[str, Any]:
        """Returns answers.Queues."""
        permissions = await self.permissions(viewer)
        if not permissions.queues:
            raise Refused(403, "Forbidden", f"{viewer.name} may not list clusterqueues.kueue.x-k8s.io")
        return queues(self.cluster, permissions.sees)

    async def workloads(self, viewer: Viewer, query: Mapping[str, str]) -> dict[str, Any]:
        """Returns answers.Workloads. Finished ones are left out unless `state` asks for them."""
        permissions = await self.permissions(viewer)
        limit, offset = number(query, "limit", DEFAULT_LIMIT, MOST), number(query, "offset", 0, 2**31)
        state = query.get("state", "")
        if state and state not in STATES:
            raise bad_request("state", state, f"must be one of {', '.join(STATES)}")
        rows = await self.rows.selected(lambda row: _selected(row, query, state) and permissions.sees(row["namespace"]))
        page = rows[offset : offset + limit]
        after = offset + len(page)
        return {"items": page, "total": len(rows), "next": after if after < len(rows) else None}

    async def workload(self, viewer: Viewer, namespace: str, name: str) -> dict[str, Any]:
        """Returns answers.WorkloadDetail."""
        permissions = await self._of_namespace(viewer, namespace)
        key = object_key(namespace, name)
        await self.rows.sort()
        row, workload = self.rows.of(key), self.cluster.view.workloads.objects.get(key)
        if row is None or workload is None:
            raise Refused(404, "NotFound", f"there is no Workload {key[:507]}")
        explanation = None
        if row["state"] == PENDING and not permissions.unread:
            explanation = self._hidden(await self._explanation(viewer, key), permissions, namespace)
        conditions = [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": each.last_transition_time,
            }
            for each in sorted(workload.status.conditions, key=lambda each: each.last_transition_time or "")
        ]
        return {
            **row,
            "explanation": explanation,
            "conditions": conditions,
            "podList": self._pods(key) if permissions.sees_pods(namespace) else [],
            "places": self._places(key),
        }

    def _pods(self, key: str) -> list[dict[str, Any]]:
        pods = self.cluster.ledger.allocations.pods
        running = [pods[pod] for pod in self.cluster.ledger.allocations.pods_of(key)]
        return [
            {"name": pod.key.partition("/")[2], "host": pod.node, "phase": "Bound", "podSet": pod.pod_set or ""}
            for pod in running
        ]

    def _places(self, key: str) -> list[dict[str, Any]]:
        allocation = self.cluster.ledger.allocations.by_workload.get(key)
        entries = sorted(allocation.entries.items()) if allocation is not None else ()
        return [
            {"flavor": entry.flavor, "host": values[-1], "pods": entry.count, "podSet": pod_set}
            for (pod_set, values), entry in entries
        ]

    async def explain(self, viewer: Viewer, namespace: str, name: str) -> dict[str, Any]:
        """Returns the explanation of a Workload, waiting or admitted."""
        permissions = await self._of_namespace(viewer, namespace)
        _check_computable(viewer, permissions)
        explanation = await self._explanation(viewer, object_key(namespace, name))
        if explanation is None:
            message = f"there is no Workload {object_key(namespace, name)[:507]} that waits or is admitted"
            raise Refused(404, "NotFound", message)
        hidden: dict[str, Any] = self._hidden(explanation, permissions, namespace)
        return hidden

    async def what_if(self, viewer: Viewer, question: Mapping[str, Any]) -> dict[str, Any]:
        """Returns answers.WhatIfAnswer for a question as answers.WhatIf has it, by Python names."""
        _check_computable(viewer, await self.permissions(viewer))
        text, form = question.get("yaml"), question.get("job")
        if (text is None) == (form is None):
            given = "both" if text is not None else "neither"
            raise Refused(400, "BadRequest", f"the question: {given} of yaml and job: must be one of them")
        try:
            documents = [job_of_form(form)] if form is not None else await self._read(viewer, str(text))
        except BadQuestion as bad:
            return {"items": [], "errors": [str(bad)]}
        for namespace in sorted({str(document.object["metadata"]["namespace"]) for document in documents}):
            await self._of_namespace(viewer, namespace[:63])
        permissions = await self.permissions(viewer)
        answer: dict[str, Any] = self._hidden(await self._tried(viewer, documents), permissions)
        return answer

    async def _explanation(self, viewer: Viewer, key: str) -> dict[str, Any] | None:
        return await self._answered(self.questions.explanation(key, share_of(viewer.name)))

    async def _read(self, viewer: Viewer, text: str) -> list[Document]:
        return await self._answered(self.questions.read(text, share_of(viewer.name)))

    async def _tried(self, viewer: Viewer, documents: list[Document]) -> dict[str, Any]:
        if not documents:
            return {"items": [], "errors": ["the manifest: holds no object"]}
        return await self._answered(self.questions.what_if(documents, share_of(viewer.name)))

    async def _answered(self, question: Awaitable[T]) -> T:
        try:
            return await question
        except TooBusy as busy:
            raise Refused(429, "TooManyRequests", str(busy)) from None
        except ForkFailed as failed:
            raise Refused(503, "Unavailable", f"no answer: {failed}") from None

    async def search(self, viewer: Viewer, text: str) -> dict[str, Any]:
        """Returns answers.SearchResult."""
        permissions = await self.permissions(viewer)
        return {"items": await search(self.cluster, self.trees, text.strip().lower()[:253], permissions)}


def _check_computable(viewer: Viewer, permissions: Permissions) -> None:
    """Raises Refused if parts of the cluster are not known that decisions depend on."""
    if permissions.unread:
        kinds = ", ".join(permissions.unread)
        raise Refused(403, "Forbidden", f"{viewer.name} may not list all of what decisions depend on: {kinds}")


def _selected(row: Row, query: Mapping[str, str], state: str) -> bool:
    if row["state"] != state if state else row["state"] == FINISHED_STATE:
        return False
    given = (("namespace", "namespace"), ("queue", "queue"), ("clusterQueue", "clusterQueue"), ("reason", "reason"))
    return all(row[field] == query[name] for name, field in given if query.get(name))


def number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Returns a number of the query between 0 and `most`. Raises Refused for anything else."""
    text = query.get(name) or ""
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= most):
        raise bad_request(name, text, f"must be a number from 0 to {most}")
    return int(text)
