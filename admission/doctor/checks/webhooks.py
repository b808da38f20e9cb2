"""Webhook configurations: present, complete, trusted, and answered."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509

from admission.doctor.checks.processes import is_down, restart
from admission.doctor.checks.settings import issues_certificates
from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import WEBHOOK, Obj, View, name_of, spec_of
from admission.engine.listed import listed
from api.kube.resources import CONFIG_MAPS, CRDS, DEPLOYMENTS, MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS
from api.names import CONVERT_PATH

_KINDS: Final = {each.kind: each for each in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
_FAILED: Final = re.compile(r'failed calling webhook "([^"]+)"')
_SELECTING: Final = ("namespaceSelector", "objectSelector", "matchConditions")
_DAY: Final = 86_400
_SOON: Final = 7 * _DAY


def _configurations(view: View) -> Iterator[Finding]:
    by_service = False
    for path, wanted in view.expected.webhooks.items():
        name = f"{wanted['kind']} {name_of(wanted)}"
        command = view.command("apply", "--server-side", "--force-conflicts", "-f", str(path))
        there = view.named(_KINDS[wanted["kind"]], name_of(wanted))
        if there is None:
            yield Finding(name, "is missing", command)
            continue
        hooks = {hook["name"]: hook for hook in there.get("webhooks") or ()}
        by_service |= any("service" in (hook.get("clientConfig") or {}) for hook in hooks.values())
        if missing := [hook["name"] for hook in wanted["webhooks"] if hook["name"] not in hooks]:
            yield Finding(name, f"lacks the webhooks {listed(missing)}", command)
        if lax := [hook["name"] for hook in wanted["webhooks"] if _is_lax(hook, hooks.get(hook["name"]))]:
            what = f"lets objects pass unseen when the webhook is down: {listed(lax)}"
            yield Finding(name, what, _mended(view, wanted, there))
        for field in _SELECTING:
            if changed := [hook["name"] for hook in wanted["webhooks"] if _selects_others(field, hook, hooks)]:
                what = f"sees other objects than it should, by {field} of {listed(changed)}"
                yield Finding(name, what, _mended(view, wanted, there))
    if by_service and view.named(SERVICES, WEBHOOK, view.namespace) is None:
        file = str(view.expected.folder / "webhook" / "service.yaml")
        yield Finding(f"Service {WEBHOOK}", "is missing", view.command("apply", "--server-side", "-f", file))


def _mended(view: View, wanted: Obj, there: Obj) -> str:
    """Returns the patch of all fields that were edited. To apply the manifest would keep what others have added to it."""
    shipped = {hook["name"]: hook for hook in wanted["webhooks"]}
    patch: list[Obj] = []
    for at, hook in enumerate(there.get("webhooks") or ()):
        own, hooks = shipped.get(hook["name"]), {hook["name"]: hook}
        if own is None:
            continue
        edited = [field for field in _SELECTING if _selects_others(field, own, hooks)]
        edited += ["failurePolicy"] if _is_lax(own, hook) else []
        if edited:
            patch.append({"op": "test", "path": f"/webhooks/{at}/name", "value": hook["name"]})
        for field in edited:
            path = f"/webhooks/{at}/{field}"
            patch.append(
                {"op": "add", "path": path, "value": own[field]} if field in own else {"op": "remove", "path": path}
            )
    return view.command("patch", wanted["kind"].lower(), name_of(wanted), "--type=json", "-p", json.dumps(patch))


def _is_lax(wanted: Obj, there: Obj | None) -> bool:
    return there is not None and wanted.get("failurePolicy") == "Fail" and there.get("failurePolicy") == "Ignore"


def _selects_others(field: str, wanted: Obj, hooks: Mapping[str, Obj]) -> bool:
    """Reports whether the webhook has another selector, or other conditions; those without any have nothing or `{}`."""
    there = hooks.get(wanted["name"])
    return there is not None and _reflowed(there.get(field) or None) != _reflowed(wanted.get(field) or None)


def _reflowed(part: Any) -> Any:
    """Returns a part of a manifest with single spaces in its texts: kustomize breaks the lines of long ones elsewhere."""
    if isinstance(part, Mapping):
        return {key: _reflowed(each) for key, each in part.items()}
    if isinstance(part, list):
        return [_reflowed(each) for each in part]
    return " ".join(part.split()) if isinstance(part, str) else part


def _answers(view: View) -> Iterator[Finding]:
    """What the API server says when it calls the webhook; the same cause is named once."""
    if is_down(view, WEBHOOK):
        return
    said = {question: text for question, text in view.answers.items() if text}
    for question, text in list(said.items())[:1]:
        if (stranger := _stranger(view, text)) is not None:
            what = f"is not of Stowage, is asked about ResourceFlavors all the same, and does not answer: {text}"
            yield Finding(f"webhook {stranger}", what, _of_others(view, stranger))
            return
        what = "does not answer" if question is Question.ADMISSION else "converts no object"
        yield Finding(f"webhook {WEBHOOK}", f"{what}: {text}", restart(view, WEBHOOK))


def _stranger(view: View, text: str) -> str | None:
    """Returns the name of the webhook that failed, by the API server's words; None if it is ours, or one that converts."""
    named = _FAILED.search(text)
    ours = {hook["name"] for configuration in view.expected.webhooks.values() for hook in configuration["webhooks"]}
    return None if named is None or named[1] in ours else named[1]


def _of_others(view: View, name: str) -> str:
    """Returns what to do about a webhook of others; what serves it is known only in part."""
    for kind in _KINDS.values():
        for configuration in view.of(kind):
            for hook in configuration.get("webhooks") or ():
                if hook.get("name") == name:
                    service = (hook.get("clientConfig") or {}).get("service") or {}
                    serves = (
                        f"the pods of Service {service['namespace']}/{service['name']}" if service else "its server"
                    )
                    return f"# start {serves}, or: kubectl delete {kind.kind.lower()} {name_of(configuration)}"
    return "# find it: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations"


def _certificates(view: View) -> Iterator[Finding]:
    """CAs that are missing, unreadable or expire; where the webhook does not answer, that is named instead."""
    if is_down(view, WEBHOOK) or any(view.answers.values()):
        return
    for name, bundle in _bundles(view):
        if (fault := _fault(bundle, view.now)) is not None:
            yield Finding(name, fault, _renew(view))


def _renew(view: View) -> str:
    """Returns the command that renews the CA; the webhook publishes it only where it issues its own certificates."""
    if issues_certificates(view):
        return restart(view, WEBHOOK)
    return (
        "# webhook.certificates is Files: have what issues them (cert-manager's CA injector) write the caBundle again"
    )


def _bundles(view: View) -> Iterator[tuple[str, Any]]:
    """Yields one CA bundle of each configuration and of each CRD that the webhook converts."""
    for wanted in view.expected.webhooks.values():
        there = view.named(_KINDS[wanted["kind"]], name_of(wanted)) or {}
        for hook in (there.get("webhooks") or ())[:1]:
            yield f"{wanted['kind']} {name_of(wanted)}", (hook.get("clientConfig") or {}).get("caBundle")
    for wanted in view.expected.crds.values():
        crd = view.named(CRDS, name_of(wanted))
        client = ((spec_of(crd).get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
        path = (client.get("service") or {}).get("path") or str(client.get("url") or "")
        if path.endswith(CONVERT_PATH):
            yield f"CustomResourceDefinition {name_of(wanted)}", client.get("caBundle")


def _fault(bundle: Any, now: float) -> str | None:
    if not bundle:
        return "has no CA bundle, so the API server trusts no certificate of the webhook"
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(str(bundle)))
    except (ValueError, binascii.Error):
        return "has a CA bundle that holds no certificate"
    end = max(certificate.not_valid_after_utc for certificate in certificates)
    if (left := (end - datetime.fromtimestamp(now, UTC)).total_seconds()) < _SOON:
        return f"its CA {'expired' if left < 0 else 'expires'} on {end:%Y-%m-%d} and was not renewed"
    return None


CHECKS: Final = (
    Check(
        "webhook-configurations",
        (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, SERVICES),
        "A webhook configuration or the webhook's Service is missing, a configuration lacks webhooks, lets objects pass "
        "when the webhook is down, or selects other namespaces or objects than the manifest.",
        "Jobs that name a queue start at once, outside every quota.",
        "applies the manifest, or patches what was edited",
        _configurations,
    ),
    Check(
        "webhook-answers",
        (DEPLOYMENTS, Question.ADMISSION, Question.CONVERSION),
        "The API server cannot call the webhook, or does not trust its certificate; or a webhook of others refuses objects of "
        "queues because it is down. (Two ResourceFlavors are created as dry runs, one of them in v1beta1.)",
        "No job that names a queue can be created, and no object of v1beta1 can be read.",
        "restarts the webhook's pods, which publishes its CA again; names the webhook of others",
        _answers,
    ),
    Check(
        "webhook-certificates",
        (
            MUTATING_WEBHOOKS,
            VALIDATING_WEBHOOKS,
            CRDS,
            DEPLOYMENTS,
            CONFIG_MAPS,
            Question.ADMISSION,
            Question.CONVERSION,
        ),
        "A configuration or CRD has no CA of the webhook, or one that expires within a week.",
        "The API server refuses to call a webhook whose certificate it does not trust.",
        "restarts the webhook's pods, which publishes its CA again; where others issue the certificates, says so",
        _certificates,
    ),
)
