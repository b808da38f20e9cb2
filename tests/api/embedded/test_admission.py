"""Webhooks, asked over TLS: who is asked, in what order, with what, and what comes of the answers."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from api.embedded.calls import Context, UserInfo
from api.embedded.request import RequestTarget, WriteOptions
from api.embedded.rest.tls import issue
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.embedded.status import StatusError
from api.embedded.writes.deletion import DeleteOptions
from api.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS

Obj = dict[str, Any]
Answer = Callable[[Obj], Obj]


@dataclass
class Hooks:
    """A webhook server: answers by path, and what it was asked."""

    server: EmbeddedServer
    url: str
    bundle: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[Obj] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        review = json.loads(await request.read())["request"]
        self.asked.append(review)
        answer = {"uid": review["uid"], **self.answers[request.path](review)}
        return web.json_response({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": answer})

    def register(
        self, path: str, answer: Answer, *, mutating: bool = False, resource: str = "configmaps", **extra: Any
    ) -> None:
        self.answers[path] = answer
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": [resource],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }
        hook = {
            "name": f"{path.strip('/')}.stowage.dev",
            "clientConfig": {"url": self.url + path, "caBundle": self.bundle},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **extra,
        }
        kind = MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS
        self.server.store.create(kind, {"metadata": {"name": path.strip("/")}, "webhooks": [hook]})

    async def create(self, obj: Obj, context: Context | None = None, dry_run: bool = False) -> Obj:
        kind = self.server.store.kind(CONFIG_MAPS)
        target, options = RequestTarget(kind, "v1", "default"), WriteOptions(dry_run=dry_run)
        return (await self.server.calls.create(target, obj, options, context or Context())).obj


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    identity = issue()
    async with EmbeddedServer(EmbeddedSettings(services={"stowage-system/webhook": ""})) as server:
        made = Hooks(server, "", base64.b64encode(identity.ca).decode())
        app = web.Application()
        app.router.add_post("/{path:.*}", made.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=identity.context()).start()
        made.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield made
        await runner.cleanup()


def allow(_: Obj) -> Obj:
    return {"allowed": True}


def patching(*operations: Obj) -> Answer:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def config_map(name: str = "x", **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


async def test_mutating_webhooks_change_the_object_in_order_then_validating_ones_see_it(hooks: Hooks) -> None:
    hooks.register("/b-second", patching({"op": "replace", "path": "/data/a", "value": "3"}), mutating=True)
    hooks.register("/a-first", patching({"op": "replace", "path": "/data/a", "value": "2"}), mutating=True)
    hooks.register("/look", allow)
    made = await hooks.create(config_map())
    assert made["data"] == {"a": "3"}
    assert [review["object"]["data"]["a"] for review in hooks.asked] == ["1", "2", "3"]
    assert "uid" not in hooks.asked[0]["object"]["metadata"]
    assert hooks.asked[-1]["object"]["metadata"]["uid"]


async def test_the_request_that_a_webhook_gets(hooks: Hooks) -> None:
    hooks.register("/look", allow)
    user = UserInfo("system:serviceaccount:a:b", ("system:authenticated",))
    await hooks.create(config_map(), Context(user), dry_run=True)
    (review,) = hooks.asked
    assert review["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert review["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (review["operation"], review["namespace"], review["name"]) == ("CREATE", "default", "x")
    assert review["userInfo"]["username"] == "system:serviceaccount:a:b"
    assert (review["dryRun"], review["oldObject"]) == (True, None)
    assert review["object"]["kind"] == "ConfigMap"


async def test_update_and_delete_carry_the_old_object(hooks: Hooks) -> None:
    await hooks.create(config_map())
    hooks.register("/look", allow)
    target = RequestTarget(hooks.server.store.kind(CONFIG_MAPS), "v1", "default", "x")
    body = {"data": {"a": "2"}}
    await hooks.server.calls.patch(target, body, "application/merge-patch+json", WriteOptions(), Context())
    await hooks.server.calls.delete(target, DeleteOptions(), Context())
    update, delete = hooks.asked
    assert (update["operation"], update["oldObject"]["data"], update["object"]["data"]) == (
        "UPDATE",
        {"a": "1"},
        {"a": "2"},
    )
    assert (delete["operation"], delete["oldObject"]["data"], delete["object"]) == ("DELETE", {"a": "2"}, None)


DENIALS = [
    pytest.param({"message": "not so", "code": 422, "reason": "Invalid"}, 422, "Invalid", ": not so", id="own-code"),
    pytest.param({"message": "not so"}, 400, "", ": not so", id="plain"),
    pytest.param({"reason": "Forbidden", "code": 403}, 403, "Forbidden", ": Forbidden", id="reason"),
    pytest.param(None, 400, "", " without explanation", id="silent"),
]


@pytest.mark.parametrize(("status", "code", "reason", "end"), DENIALS)
async def test_denials(hooks: Hooks, status: Obj | None, code: int, reason: str, end: str) -> None:
    hooks.register("/no", lambda _: {"allowed": False, "status": status})
    with pytest.raises(StatusError) as refused:
        await hooks.create(config_map())
    assert (refused.value.status, refused.value.reason) == (code, reason)
    assert refused.value.message == f'admission webhook "no.stowage.dev" denied the request{end}'


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_webhook_that_cannot_be_reached(hooks: Hooks, policy: str) -> None:
    nowhere = {"url": "https://127.0.0.1:1/x", "caBundle": hooks.bundle}
    hooks.register("/gone", allow, clientConfig=nowhere, failurePolicy=policy, timeoutSeconds=1)
    if policy == "Ignore":
        assert (await hooks.create(config_map()))["data"] == {"a": "1"}
        return
    with pytest.raises(StatusError) as refused:
        await hooks.create(config_map())
    assert (refused.value.status, refused.value.reason) == (500, "InternalError")
    assert 'failed calling webhook "gone.stowage.dev": failed to call webhook: Post' in refused.value.message
    assert refused.value.message.endswith("dial tcp 127.0.0.1:1: connect: connection refused")


async def test_a_certificate_of_another_ca_is_a_failure(hooks: Hooks) -> None:
    other = base64.b64encode(issue().ca).decode()
    hooks.register("/look", allow, clientConfig={"url": hooks.url + "/look", "caBundle": other})
    with pytest.raises(StatusError, match="certificate verify failed"):
        await hooks.create(config_map())


async def test_a_service_is_found_through_the_map(hooks: Hooks) -> None:
    hooks.server.webhooks.services = {"stowage-system/webhook": hooks.url}
    service = {"namespace": "stowage-system", "name": "webhook", "path": "/look"}
    hooks.register("/look", allow, clientConfig={"service": service, "caBundle": hooks.bundle})
    await hooks.create(config_map())
    assert len(hooks.asked) == 1


UNASKED = [
    pytest.param({"objectSelector": {"matchLabels": {"on": "1"}}}, id="object-selector"),
    pytest.param({"namespaceSelector": {"matchLabels": {"on": "1"}}}, id="namespace-selector"),
    pytest.param({"matchConditions": [{"name": "a", "expression": "'on' in object.metadata.labels"}]}, id="condition"),
    pytest.param(
        {"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"]}]}, id="kind"
    ),
    pytest.param(
        {"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["UPDATE"]}]},
        id="operation",
    ),
    pytest.param(
        {
            "rules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "Cluster"}
            ]
        },
        id="scope",
    ),
    pytest.param(
        {
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps/status"], "operations": ["*"]}
            ]
        },
        id="subresource",
    ),
]


@pytest.mark.parametrize("extra", UNASKED)
async def test_who_is_not_asked(hooks: Hooks, extra: Obj) -> None:
    hooks.register("/no", lambda _: {"allowed": False}, **extra)
    await hooks.create(config_map(off="1"))
    assert hooks.asked == []


async def test_who_is_asked_by_selectors_and_conditions(hooks: Hooks) -> None:
    condition = {"name": "a", "expression": "has(object.metadata.labels) && 'on' in object.metadata.labels"}
    here = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    hooks.register("/look", allow, matchConditions=[condition], namespaceSelector=here)
    await hooks.create(config_map(on="1"))
    assert len(hooks.asked) == 1


async def test_a_condition_that_fails_counts_as_a_failing_webhook(hooks: Hooks) -> None:
    condition = {"name": "broken", "expression": "object.nothing == 1"}
    hooks.register("/look", allow, matchConditions=[condition])
    with pytest.raises(StatusError, match="no such key: nothing"):
        await hooks.create(config_map())


async def test_a_webhook_that_asks_for_it_is_asked_again_when_a_later_one_changed_something(hooks: Hooks) -> None:
    hooks.register("/a-first", allow, mutating=True, reinvocationPolicy="IfNeeded")
    hooks.register("/b-second", patching({"op": "add", "path": "/data/b", "value": "2"}), mutating=True)
    await hooks.create(config_map())
    assert [sorted(review["object"]["data"]) for review in hooks.asked] == [["a"], ["a"], ["a", "b"]]


async def test_what_a_webhook_leaves_is_defaulted_again(hooks: Hooks) -> None:
    bare = [{"name": "c", "image": "i"}]
    patch = patching({"op": "replace", "path": "/spec/containers", "value": bare})
    hooks.register("/bare", patch, mutating=True, resource="pods")
    target = RequestTarget(hooks.server.store.kind(PODS), "v1", "default")
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "other", "image": "j"}]}}
    made = await hooks.server.calls.create(target, pod, WriteOptions(), Context())
    assert made.obj["spec"]["containers"][0]["imagePullPolicy"] == "Always"


async def test_warnings_reach_the_caller(hooks: Hooks) -> None:
    hooks.register("/warn", lambda _: {"allowed": True, "warnings": ["mind the gap"]})
    context = Context()
    await hooks.create(config_map(), context)
    assert context.warnings == ["mind the gap"]
