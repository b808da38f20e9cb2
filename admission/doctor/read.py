"""Reads a view of a cluster from the API server. Writes nothing: what it creates are access reviews and dry runs.

Lists are read in pages, and of each object only what checks read is kept. At most `MOST` objects of a kind are read. A kind
that is not served counts as empty; one that the user may not read is noted, and its checks say so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from admission.doctor.expected import Expected, Right, granted
from admission.doctor.finding import Check
from admission.doctor.pod_facts import ListedPod, pod_facts
from admission.doctor.pod_owners import follow
from admission.doctor.question import Question
from admission.doctor.unmanaged import unmanaged_objects
from admission.doctor.view import Obj, View, name_of, namespace_of
from admission.doctor.waiting_pods import PodOfOurs, why_it_waits
from admission.integrations.owners import owner_resources
from api.errors import ApiError, NotFound, StowageError
from api.kube.client import Kube, name_kind
from api.kube.decode import DECODE_ERRORS
from api.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOB_KINDS,
    LEASES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    SERVICES,
    WORKLOADS,
    Resource,
)
from api.meta import parse_time
from api.names import COSCHEDULING, COSCHEDULING_SIGS, GROUP, STOWAGE
from api.process.access import ACCESS_REVIEWS

MOST: Final = 200_000
"""Most objects of one kind that are read."""
_PAGE: Final = 500
_PAGES: Final = {CRDS: 20}
"""Objects per page, for kinds whose objects are large."""
_AT_ONCE: Final = 16
MOST_KINDS: Final = 100
"""Kinds of owners that are looked at: a user who may write Workloads can make up any number of them."""
_OURS: Final = frozenset((LEASES, SERVICES, CONFIG_MAPS))
"""Kinds of which only the objects in Stowage's namespace are read."""
OURS: Final = "app.kubernetes.io/name=stowage"
_AUTHORIZATION: Final = "rbac.authorization.k8s.io"
_RBAC: Final = (
    Resource(_AUTHORIZATION, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_AUTHORIZATION, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(_AUTHORIZATION, "v1", "roles", "Role"),
    Resource(_AUTHORIZATION, "v1", "rolebindings", "RoleBinding"),
)
_BOUND: Final = "spec.nodeName!="
_PROBE: Final = "stowage-doctor-probe"
_PROBED: Final = {
    Question.ADMISSION: RESOURCE_FLAVORS,
    Question.CONVERSION: Resource(GROUP, "v1beta1", "resourceflavors", "ResourceFlavor", namespaced=False),
}
_CHECKED_GROUPS: Final = frozenset((GROUP, STOWAGE, COSCHEDULING, COSCHEDULING_SIGS))
"""API groups of CRDs that are compared with those of this release."""
_SLIM: Final = ("managedFields", "selfLink")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""On objects that `kubectl apply` wrote: the manifest. `stowage doctor` does not keep it."""


class _OwnerMeta(msgspec.Struct):
    uid: str = ""


class _OwnerObject(msgspec.Struct):
    metadata: _OwnerMeta


async def look(
    kube: Kube, namespace: str, expected: Expected, checks: Iterable[Check], kubectl: str = "kubectl"
) -> View:
    """Returns the view that these checks need. Raises ApiError if the cluster does not answer at all."""
    await kube.get_path("/version")
    view = View(namespace, time.time(), expected, kubectl)
    reader = _Reader(kube, view)
    wanted = list(dict.fromkeys(read for check in checks for read in check.reads))
    for resource in (each for each in wanted if isinstance(each, Resource)):
        await reader.guarded(resource, lambda resource=resource: reader.listed(resource))  # type: ignore[misc]
    answers: dict[Question, Callable[[], Awaitable[None]]] = {
        Question.RIGHTS: reader.rights,
        Question.ADMISSION: lambda: reader.probe(Question.ADMISSION),
        Question.CONVERSION: lambda: reader.probe(Question.CONVERSION),
        Question.OWNERS: reader.owners,
        Question.POD_OWNERS: reader.pod_owners,
        Question.UNMANAGED: reader.unmanaged,
        Question.OUR_PODS: reader.our_pods,
    }
    for question in (each for each in wanted if isinstance(each, Question)):
        await reader.guarded(question, answers[question])
    return view


class _Reader:
    """Fills a view."""

    def __init__(self, kube: Kube, view: View) -> None:
        self._kube, self._view = kube, view
        self._objects: dict[Resource, list[Obj]] = {}
        self._unread: dict[Resource | Question, str] = {}
        self._gaps: dict[Resource | Question, str] = {}
        self._absent: set[Resource] = set()
        self._cut: dict[Resource | Question, int] = {}
        view.objects, view.unread, view.gaps, view.cut = self._objects, self._unread, self._gaps, self._cut

    async def guarded(self, what: Resource | Question, reads: Callable[[], Awaitable[None]]) -> None:
        """Reads, and notes why it could not be read."""
        try:
            await reads()
        except (StowageError, TimeoutError, *DECODE_ERRORS) as failed:
            self._unread[what] = " ".join(str(failed).split()) or "no answer in time"

    async def listed(self, resource: Resource) -> None:
        """Lists a kind: pods as facts, all others as objects."""
        if resource is PODS:
            return await self._list_pods()
        where = self._view.namespace if resource in _OURS else None
        objects = [
            _slim(resource, msgspec.json.decode(raw), self._view.namespace) async for raw in self._all(resource, where)
        ]
        self._objects[resource] = sorted(objects, key=lambda obj: (namespace_of(obj), name_of(obj)))
        return None

    async def _list_pods(self) -> None:
        decode = msgspec.json.Decoder(ListedPod).decode
        read = [pod_facts(decode(raw)) async for raw in self._all(PODS, selector=_BOUND)]
        self._view.pods = [facts for facts in read if facts is not None]

    async def _all(
        self, resource: Resource, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[msgspec.Raw]:
        """Yields at most MOST objects; none if the kind is not served."""
        after: str | None = None
        count = 0
        while True:
            try:
                page = await self._kube.list_raw(
                    resource, namespace, limit=_PAGES.get(resource, _PAGE), continue_=after, field_selector=selector
                )
            except NotFound:
                self._absent.add(resource)
                return
            for raw in page.items:
                yield raw
            count += len(page.items)
            if not (after := page.continue_):
                return
            if count >= MOST:
                self._cut[resource] = count
                return

    async def rights(self) -> None:
        """For each expected right that the installed roles do not grant, asks whether the process has it nevertheless."""
        expected = self._view.expected
        accounts = f"system:serviceaccount:{self._view.namespace}:"
        slots = asyncio.Semaphore(_AT_ONCE)

        async def asked(right: Right) -> bool:
            spec = {"user": f"{accounts}{right.account}", "resourceAttributes": right.attributes()}
            review = {
                "apiVersion": ACCESS_REVIEWS.api_version,
                "kind": ACCESS_REVIEWS.kind,
                "metadata": {},
                "spec": spec,
            }
            async with slots:
                answer = await self._kube.create(ACCESS_REVIEWS, review)
            return bool((answer.get("status") or {}).get("allowed"))

        every = (*expected.rights, *expected.certificates, *expected.retention, *expected.metrics)
        by_roles = await self._granted()
        open_ = [right for right in every if right not in by_roles]
        allowed = await asyncio.gather(*(asked(right) for right in open_))
        self._view.refused = [right for right, may in zip(open_, allowed, strict=True) if not may]

    async def _granted(self) -> frozenset[Right]:
        """Returns the rights that Stowage's own roles and bindings grant; none if the user may not read them."""
        bindings: list[tuple[str, Obj]] = []
        try:
            for kind in _RBAC:
                page = await self._kube.list(
                    kind, self._view.namespace if kind.namespaced else None, label_selector=OURS, limit=_PAGE
                )
                bindings += [("", each) for each in page.items]
        except ApiError:
            return frozenset()
        return frozenset(granted(bindings, self._view.namespace))

    async def probe(self, question: Question) -> None:
        """Creates a ResourceFlavor as a dry run; the API server asks the webhook, and its answer has the server's time."""
        resource = _PROBED[question]
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"generateName": _PROBE},
            "spec": {},
        }
        answers = dict(self._view.answers)
        try:
            made = await self._kube.tuned(attempts=1, timeout=15.0).create(resource, body, dry_run=True)
        except NotFound:
            return  # the CRD is missing: its own check says so
        except ApiError as refused:
            if not _is_of_webhook(refused.message):
                raise
            answers[question] = " ".join(refused.message.split())
        else:
            answers[question] = ""
            if (created := parse_time(str(made["metadata"].get("creationTimestamp") or ""))) is not None:
                self._view.now = created
        self._view.answers = answers

    async def owners(self) -> None:
        """Lists the UIDs of all objects of the kinds that own Workloads. A kind of which not all is known is left out."""
        known = {(one.group, one.kind): one for one in (*owner_resources(), *await self._declared())}
        references = (
            reference
            for workload in self._objects.get(WORKLOADS, ())
            for reference in workload["metadata"].get("ownerReferences") or ()
        )
        wanted = {_group_kind(reference): str(reference.get("apiVersion")) for reference in references}
        decode = msgspec.json.Decoder(_OwnerObject).decode
        served = await self._served()
        kinds: dict[tuple[str, str], frozenset[str] | None] = {}
        others = [kind for kind in sorted(wanted) if kind not in served]
        for kind in others[:MOST_KINDS]:
            if not await self._aggregated(wanted[kind], kind[1]):
                kinds[kind] = None
        if len(others) > MOST_KINDS:
            self._gaps[Question.OWNERS] = (
                f"only {MOST_KINDS} of {len(others)} kinds that no CRD declares were looked at"
            )
        for kind in sorted(wanted.keys() & known.keys() - kinds.keys()):
            uids = frozenset([decode(raw).metadata.uid async for raw in self._all(known[kind])])
            if known[kind] not in self._cut and known[kind] not in self._absent:
                kinds[kind] = uids
        self._view.owners = kinds

    async def _aggregated(self, version: str, kind: str) -> bool:
        """Reports whether discovery lists a kind that has no CRD: another API server may serve it."""
        try:
            listed = msgspec.json.decode(await self._kube.get_path(f"/apis/{quote(version)}"))
        except NotFound:
            return False
        return any(one.get("kind") == kind for one in listed.get("resources") or ())

    async def _served(self) -> frozenset[tuple[str, str]]:
        """Returns the (group, kind) of CRDs and of the API server's own kinds that own Workloads."""
        own = {(one.group, one.kind) for one in owner_resources() if "." not in one.group}
        names = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]) for crd in await self._crds()}
        return frozenset(own | names)

    async def _crds(self) -> list[Obj]:
        return await self._listed_once(CRDS)

    async def _declared(self) -> list[Resource]:
        """Returns the kinds that the cluster's JobKinds declare; a check of its own says what is wrong with a JobKind."""
        specs = [kind.get("spec") or {} for kind in await self._listed_once(JOB_KINDS)]
        return [
            Resource(str(spec.get("group")), str(spec.get("version")), str(spec.get("plural")), str(spec.get("kind")))
            for spec in specs
        ]

    async def _listed_once(self, resource: Resource) -> list[Obj]:
        if resource not in self._objects:
            await self.listed(resource)
        return self._objects[resource]

    async def pod_owners(self) -> None:
        """Follows the owners of pods that name no Workload."""
        looked = await follow(self._kube, self._view.pods, (*owner_resources(), *await self._declared()))
        self._view.parents, self._view.unfollowed = looked.parents, frozenset(looked.unfollowed)
        if looked.gap:
            self._gaps[Question.POD_OWNERS] = looked.gap

    async def our_pods(self) -> None:
        """Reads why pods of Stowage do not run."""
        decode = msgspec.json.Decoder(PodOfOurs).decode
        pods = [decode(raw) async for raw in self._all(PODS, self._view.namespace)]
        self._view.held_up = {pod.metadata.name: why for pod in pods if (why := why_it_waits(pod))}

    async def unmanaged(self) -> None:
        """Finds objects that name a queue and are of a kind that Stowage does not manage."""
        declared = {(kind.group, kind.kind) for kind in await self._declared()}
        looked = await unmanaged_objects(self._kube, declared)
        self._view.unmanaged = looked.found
        if looked.gap:
            self._gaps[Question.UNMANAGED] = looked.gap


def _group_kind(reference: Obj) -> tuple[str, str]:
    group, slash, _ = str(reference.get("apiVersion") or "").partition("/")
    return (group if slash else "", str(reference.get("kind") or ""))


def _is_of_webhook(message: str) -> bool:
    """Reports whether the API server says that it could not call a webhook, and not that it refuses the user."""
    return any(words in message for words in ("failed calling webhook", "conversion webhook", "failed to call webhook"))


def _slim(resource: Resource, obj: Obj, namespace: str) -> Obj:
    """Returns the object without what no check reads, in place.

    Images of nodes, schemas of foreign CRDs and pod templates of Workloads are most of what a large cluster has.
    """
    name_kind(resource, obj)
    metadata: dict[str, Any] = obj["metadata"]
    for key in _SLIM:
        metadata.pop(key, None)
    (metadata.get("annotations") or {}).pop(_LAST_APPLIED, None)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource is WORKLOADS:
        sizes = [{"name": each.get("name"), "count": each.get("count", 1)} for each in spec.get("podSets") or ()]
        kept = ("conditions", "admission", "unhealthyNodes")
        obj["spec"] = {"podSets": sizes, "queueName": spec.get("queueName") or ""}
        obj["status"] = {key: status[key] for key in kept if key in status}
    elif resource is DAEMON_SETS:
        obj["spec"], obj["status"] = {}, {}
    elif resource is NODES:
        kept_spec = {"unschedulable": True} if spec.get("unschedulable") else {}
        obj["spec"], obj["status"] = kept_spec, {"allocatable": status.get("allocatable") or {}}
    elif resource is CRDS and spec.get("group") not in _CHECKED_GROUPS:
        for version in spec.get("versions") or ():
            version.pop("schema", None)
    elif resource is DEPLOYMENTS and metadata.get("namespace") != namespace:
        spec.pop("template", None)
    return obj
