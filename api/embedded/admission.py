"""Calls admission webhooks as the real server does: over TLS, with AdmissionReviews, in the same order.

Reads the Mutating- and ValidatingWebhookConfigurations that the server stores. Supports clientConfig (url, or service through a
map given to the server), caBundle, rules with operations, subresources and scope, namespaceSelector, objectSelector,
failurePolicy, timeoutSeconds, matchConditions (as far as cel.py goes), JSONPatch responses, warnings and reinvocationPolicy
IfNeeded. Not supported: matchPolicy Equivalent across versions (a rule must name the requested version), sideEffects checks on
dry runs, and audit annotations.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

import aiohttp
import msgspec

from api.cel.cel import CelError, compile_cel
from api.cel.cel_authorizer import Authorizer
from api.embedded.calls import Context
from api.embedded.patch import clone, json_patch
from api.embedded.request import RequestTarget, Review
from api.embedded.selectors import from_object, matches
from api.embedded.status import Obj, StatusError, internal
from api.embedded.store import ObjectStorage

Services = Mapping[str, str]  # "namespace/name" of a Service -> "https://127.0.0.1:PORT"
# Called with the name of the webhook that is about to be called, within the call's timeout. Used to inject faults.
OnReview = Callable[[str], Awaitable[None]]
_GROUP = "admissionregistration.k8s.io"


class Webhooks:
    """Calls webhooks in one HTTP session, which `close` ends."""

    def __init__(
        self,
        store: ObjectStorage,
        services: Services,
        on_review: OnReview | None = None,
        tenants: Collection[str] = (),
    ) -> None:
        self._store, self.services, self._on_review, self._tenants = store, services, on_review, tenants
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def review(self, review: Review, context: Context) -> Obj | None:
        if review.target.kind.group == _GROUP:
            return review.obj  # webhooks are never called for webhook configurations
        if review.mutating:
            return await self._mutate(review, context)
        hooks = self._hooks(review)
        for done in await asyncio.gather(
            *(self._call(hook, review, context) for hook in hooks), return_exceptions=True
        ):
            if isinstance(done, BaseException):
                raise done
        return review.obj

    async def _mutate(self, review: Review, context: Context) -> Obj | None:
        """Calls mutating webhooks in order of name, then those with reinvocation again if a later one changed the object."""
        obj = review.obj
        called: list[tuple[Obj, Obj | None]] = []
        for hook in self._hooks(review):
            obj = await self._call(hook, _with(review, obj), context)
            called.append((hook, obj))
        for hook, left in called:
            if hook.get("reinvocationPolicy") == "IfNeeded" and obj != left:
                obj = await self._call(hook, _with(review, obj), context)
        return obj

    def _hooks(self, review: Review) -> Iterable[Obj]:
        plural = "mutatingwebhookconfigurations" if review.mutating else "validatingwebhookconfigurations"
        kind = self._store.kinds[_GROUP, plural]
        configurations = self._store.table(kind).records
        for key in sorted(configurations):
            for hook in configurations[key].obj.get("webhooks") or ():
                if _rules_match(hook, review) and self._selectors_match(hook, review):
                    yield hook

    def _selectors_match(self, hook: Obj, review: Review) -> bool:
        wanted = from_object(hook.get("objectSelector"))
        labels = [(obj.get("metadata") or {}).get("labels") for obj in (review.obj, review.old) if obj]
        if wanted and not any(matches(wanted, item) for item in labels):
            return False
        namespace = _namespace(review.target)
        if not namespace:
            return True
        namespace_object = self._store.find("", "namespaces", namespace)
        labels_of = namespace_object["metadata"].get("labels") if namespace_object else {}
        return matches(from_object(hook.get("namespaceSelector")), labels_of)

    def _conditions_hold(self, hook: Obj, request: Obj, context: Context) -> bool:
        """Reports whether all matchConditions hold. A false condition wins over errors; otherwise an error fails the webhook.

        Their authorizer answers as a SubjectAccessReview does (http.py).
        """
        authorizer = Authorizer(lambda _: context.user.name not in self._tenants)
        objects = {"object": request["object"], "oldObject": request["oldObject"]}
        scope = {**objects, "request": request, "authorizer": authorizer}
        failed: CelError | None = None
        for item in hook.get("matchConditions") or ():
            try:
                if not compile_cel(item["expression"])(scope):
                    return False
            except CelError as error:
                failed = CelError(f"matchConditions {item.get('name')!r}: {error}")
        if failed is not None:
            raise failed
        return True

    async def _call(self, hook: Obj, review: Review, context: Context) -> Obj | None:
        """Returns the object after this webhook. Raises the webhook's denial, or status 500 if it fails under policy Fail."""
        request = _request(review, context)
        name = hook["name"]
        try:
            if not self._conditions_hold(hook, request, context):
                return review.obj
            async with asyncio.timeout(float(hook.get("timeoutSeconds") or 10)):
                if self._on_review is not None:
                    await self._on_review(name)
                answer = await self._post(hook, request)
        except StatusError:
            raise
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError, OSError, ValueError, CelError) as error:
            if hook.get("failurePolicy") == "Ignore":
                return review.obj
            url = f"{self._url(hook['clientConfig'])}?timeout={hook.get('timeoutSeconds', 10)}s"
            why = f'failed to call webhook: Post "{url}": {_why(error)}'
            raise internal(f'failed calling webhook "{name}": {why}') from error
        context.warnings.extend(answer.get("warnings") or ())
        if not answer.get("allowed"):
            raise _denial(name, answer.get("status") or {})
        return _patched(review, answer)

    async def _post(self, hook: Obj, request: Obj) -> Obj:
        url, context = self._address(hook["clientConfig"])
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        if self._session is None:
            self._session = aiohttp.ClientSession()
        seconds = float(hook.get("timeoutSeconds") or 10)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        call = self._session.post(
            url,
            params={"timeout": f"{int(seconds)}s"},
            data=msgspec.json.encode(body),
            headers=headers,
            ssl=context,
            timeout=aiohttp.ClientTimeout(total=seconds),
        )
        async with call as response:
            data = await response.read()
            if response.status != 200:
                raise ValueError(f"expected 200 from {url}, got {response.status}: {data[:200]!r}")
        answer = msgspec.json.decode(data).get("response") or {}
        if answer.get("uid") != request["uid"]:
            raise ValueError(f"expected response.uid={request['uid']!r}, got {answer.get('uid')!r}")
        return dict(answer)

    def _address(self, config: Obj) -> tuple[str, ssl.SSLContext | bool]:
        if config.get("url"):
            return config["url"], self._trust(config)
        service = config["service"]
        name = f"{service['namespace']}/{service['name']}"
        base = self.services.get(name)
        if base is None:
            raise ValueError(f'service "{service["name"]}" not found')
        return base.rstrip("/") + "/" + (service.get("path") or "/").lstrip("/"), self._trust(config)

    def _url(self, config: Obj) -> str:
        """Returns the URL for messages; the real server names a service by its DNS name."""
        if config.get("url"):
            return str(config["url"])
        service = config["service"]
        port = service.get("port", 443)
        return f"https://{service['name']}.{service['namespace']}.svc:{port}{service.get('path') or ''}"

    def _trust(self, config: Obj) -> ssl.SSLContext | bool:
        """Returns a TLS context that trusts the caBundle only. Names are checked for URLs only; mapped services differ."""
        bundle, by_service = config.get("caBundle") or "", "service" in config
        key = f"{by_service}{bundle}"
        if key not in self._contexts:
            context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
            context.check_hostname = not by_service
            self._contexts[key] = context
        return self._contexts[key]


def _with(review: Review, obj: Obj | None) -> Review:
    return Review(review.mutating, review.operation, review.target, obj, review.old, review.dry_run)


def _namespace(target: RequestTarget) -> str | None:
    return target.name if target.kind.plural == "namespaces" else target.namespace


def _rules_match(hook: Obj, review: Review) -> bool:
    target = review.target
    resource = f"{target.kind.plural}/{target.subresource}" if target.subresource else target.kind.plural
    accepted = {"*", "*/*", resource, f"{target.kind.plural}/*"}
    if target.subresource:
        accepted = {"*/*", resource, f"{target.kind.plural}/*", f"*/{target.subresource}"}
    scope = "Namespaced" if target.kind.namespaced else "Cluster"
    return any(
        {"*", review.operation} & set(rule.get("operations") or ())
        and {"*", target.kind.group} & set(rule.get("apiGroups") or ())
        and {"*", target.version} & set(rule.get("apiVersions") or ())
        and accepted & set(rule.get("resources") or ())
        and rule.get("scope", "*") in ("*", scope)
        for rule in hook.get("rules") or ()
    )


def _request(review: Review, context: Context) -> Obj:
    target, kind = review.target, review.target.kind
    type_of = {"group": kind.group, "version": target.version, "kind": kind.kind}
    resource = {"group": kind.group, "version": target.version, "resource": kind.plural}
    named = (review.obj or review.old or {}).get("metadata") or {}
    request: Obj = {
        "uid": str(uuid.uuid4()),
        "kind": type_of,
        "resource": resource,
        "requestKind": type_of,
        "requestResource": resource,
        "name": target.name or named.get("name", ""),
        "operation": review.operation,
        "userInfo": context.user.body(),
        "object": _shown(target, review.obj),
        "oldObject": _shown(target, review.old),
        "dryRun": review.dry_run,
        "options": {"kind": f"{review.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if target.subresource:
        request["subResource"] = request["requestSubResource"] = target.subresource
    if kind.namespaced:
        request["namespace"] = target.namespace
    elif kind.plural == "namespaces":
        request["namespace"] = request["name"]
    return request


def _shown(target: RequestTarget, obj: Obj | None) -> Obj | None:
    """Returns the object in the version of the request."""
    return {**obj, "apiVersion": target.kind.in_version(target.version)} if obj is not None else None


def _why(error: BaseException) -> str:
    """Returns the error in the words of Go's HTTP client, for common errors."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    return str(error) or type(error).__name__


def _denial(name: str, status: Obj) -> StatusError:
    """Returns the webhook's code and reason in the real server's words."""
    why, reason = status.get("message"), str(status.get("reason") or "")
    denied = f'admission webhook "{name}" denied the request'
    message = f"{denied}: {why or reason}" if why or reason else f"{denied} without explanation"
    return StatusError(max(int(status.get("code") or 400), 400), reason, message, status.get("details"))


def _patched(review: Review, answer: Obj) -> Obj | None:
    if not review.mutating or not answer.get("patch") or review.obj is None:
        return review.obj
    operations: Any = msgspec.json.decode(base64.b64decode(answer["patch"]))
    return json_patch(clone(review.obj), operations)
