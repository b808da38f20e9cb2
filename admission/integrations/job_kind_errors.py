"""Validates JobKinds: each error names the field, the value given and what is allowed. Pure.

The CRD's schema bounds lengths and forms too, but every JobKind is validated here before use, since files have no schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from admission.integrations.declared.functions import FUNCTIONS
from admission.integrations.paths import value_at
from admission.integrations.registry import KINDS
from admission.integrations.sets.sets import SETS
from api.cel.cel import CelError, compile_cel
from api.errors import InvalidObject, InvalidQuantity
from api.job_kinds import (
    EACH,
    MAX_EXPRESSION,
    MAX_POD_SET_RULES,
    PATH,
    DefaultTemplate,
    ElasticCount,
    Factor,
    JobKind,
    JobKindSpec,
    PodSetRule,
    Scale,
    Test,
    WriteBack,
)
from api.kube.resources import DEPLOYMENTS, PODS
from api.limits import limit_errors, type_errors
from api.names import GROUP, STOWAGE
from api.schema import DNS_SUBDOMAIN, LABEL_KEY
from api.text.quantity import parse

_PATH: Final = re.compile(PATH)
_EACH: Final = re.compile(EACH)
_NAME: Final = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_GROUP: Final = re.compile(DNS_SUBDOMAIN)
_LABEL: Final = re.compile(LABEL_KEY)
_KIND: Final = re.compile(r"^[A-Z][A-Za-z0-9]{0,62}$")
_LONGEST_PATH: Final = 256

_PATH_FORM: Final = "must be field names divided by dots"
_EACH_FORM: Final = "must be field names divided by dots, each with [] where it is a list and {} where it is a map"
_OF_SERVER: Final = frozenset(("apiVersion", "kind", "metadata", "status"))
_NOT_OF_SERVER: Final = "must be a field that a start can write, not one of apiVersion, kind, metadata and status"
_BESIDE_SCALE: Final = frozenset(("group", "version", "plural", "kind", "scale", "rank_label"))
_OTHERS: Final = frozenset((one.group, one.kind) for one in (PODS, DEPLOYMENTS, *(each.resource for each in SETS)))
"""Kinds that are managed without being jobs."""
NO_JOBS: Final = frozenset(
    (
        GROUP,
        STOWAGE,
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    )
)
"""API groups of the cluster itself and of Stowage, whose objects run no pods: a JobKind could only do harm there."""


def read(obj: Mapping[str, Any]) -> JobKind:
    """Decodes a JobKind. Raises InvalidObject for its first error."""
    for error in errors_of(obj):
        raise InvalidObject(error.field, error.given, error.allowed, _title(obj))
    return JobKind.from_wire(obj)


def errors_of(obj: Mapping[str, Any]) -> list[InvalidObject]:
    """Returns all validation errors of the JobKind; if fields have the wrong type, only these."""
    spec = obj.get("spec")
    if wrong := type_errors(JobKindSpec, spec, "spec"):
        return wrong
    try:
        kind = JobKind.from_wire(obj)
    except ValidationError as error:  # of metadata or status
        return [InvalidObject(".".join(map(str, one["loc"])), one.get("input"), one["msg"]) for one in error.errors()]
    errors = [*_identity(kind), *_unknown_fields("spec", kind.spec)]
    if kind.spec.scale is not None:
        errors += _scale(kind.spec, kind.spec.scale)
    else:
        errors += [*_shape(kind.spec), *_status(kind.spec)]
    known = {error.field for error in errors}
    return [*errors, *(error for error in limit_errors(JobKindSpec, spec, "spec") if error.field not in known)]


def _title(obj: Mapping[str, Any]) -> str:
    meta = obj.get("metadata")
    return f"JobKind {meta.get('name', '') if isinstance(meta, dict) else ''}".strip()


def _identity(kind: JobKind) -> Iterator[InvalidObject]:
    spec = kind.spec
    for name, value, form, allowed in (
        ("group", spec.group, _GROUP, "must be an API group"),
        ("version", spec.version, _NAME, "must be an API version"),
        ("plural", spec.plural, _NAME, "must be a plural name in small letters"),
        ("kind", spec.kind, _KIND, "must be a kind"),
    ):
        if not form.fullmatch(value):
            yield InvalidObject(f"spec.{name}", value, allowed)
    if spec.group in NO_JOBS:
        yield InvalidObject(
            "spec.group", spec.group, "must be a group whose objects have pods, not one of the cluster itself"
        )
    wanted = f"{spec.plural}.{spec.group}"
    if kind.metadata.name != wanted:
        yield InvalidObject("metadata.name", kind.metadata.name, f"must be {wanted}: plural and group")
    if KINDS.is_built_in((spec.group, spec.kind)) or (spec.group, spec.kind) in _OTHERS:
        yield InvalidObject(
            "spec.kind", spec.kind, f"must not be a kind that is built in, as {spec.group} {spec.kind} is"
        )


def _unknown_fields(at: str, value: Any) -> Iterator[InvalidObject]:
    """Yields unknown fields: a misspelled field would silently have no effect."""
    if isinstance(value, tuple):
        for number, one in enumerate(value):
            yield from _unknown_fields(f"{at}[{number}]", one)
    elif hasattr(value, "model_extra"):
        known = ", ".join(sorted(field.alias or name for name, field in type(value).model_fields.items()))
        for name, given in (value.model_extra or {}).items():
            yield InvalidObject(f"{at}.{name}", given, f"is not known here; known are {known}")
        for name, field in type(value).model_fields.items():
            yield from _unknown_fields(f"{at}.{field.alias or name}", getattr(value, name))


def _shape(spec: JobKindSpec) -> Iterator[InvalidObject]:
    yield from _path("spec.suspend.path", spec.suspend.path, marks=False, written=True)
    if spec.suspend.suspended == spec.suspend.running:
        yield InvalidObject("spec.suspend.running", spec.suspend.running, "must differ from spec.suspend.suspended")
    if not 1 <= len(spec.pod_sets) <= MAX_POD_SET_RULES:
        yield InvalidObject("spec.podSets", len(spec.pod_sets), f"must have 1 to {MAX_POD_SET_RULES} entries")
    for number, rule in enumerate(spec.pod_sets):
        yield from _pod_sets(f"spec.podSets[{number}]", rule)
    for number, path in enumerate(spec.priority_class):
        yield from _path(f"spec.priorityClass[{number}]", path, marks=False)
    yield from _label("spec.rankLabel", spec.rank_label)
    yield from _label("spec.pods.nameLabel", spec.pods.name_label)
    yield from _requests("spec.pods.added", spec.pods.added or {})
    for number, child in enumerate(spec.children):
        if child.kind != "*" and not _KIND.fullmatch(child.kind):
            yield InvalidObject(f"spec.children[{number}].kind", child.kind, "must be a kind, or * for any")
    for key in spec.pods.labels or {}:
        yield from _label("spec.pods.labels", key)
    yield from _path("spec.managedByPath", spec.managed_by_path, marks=False)
    for number, path in enumerate(spec.frozen):
        yield from _path(f"spec.frozen[{number}]", path, marks=False)
    for number, one in enumerate(spec.requires):
        yield from _path(f"spec.requires[{number}].path", one.path, marks=False)
        yield from _expression(f"spec.requires[{number}].expression", one.expression)
    if spec.skip_when is not None:
        yield from _test("spec.skipWhen", spec.skip_when)
    if spec.write_back is not None:
        yield from _write_back("spec.writeBack", spec.write_back)


def _scale(spec: JobKindSpec, scale: Scale) -> Iterator[InvalidObject]:
    """Yields errors of fields that a kind declared by its scale subresource must not have, such as `suspend` and `status`."""
    for name, field in type(spec).model_fields.items():
        if name not in _BESIDE_SCALE and getattr(spec, name) != field.get_default(call_default_factory=True):
            yield InvalidObject(
                f"spec.{field.alias or name}", getattr(spec, name), "must be left out together with spec.scale"
            )
    yield from _label("spec.rankLabel", spec.rank_label)
    yield from _factor("spec.scale.replicas", scale.replicas)
    for name, path in (("selector", scale.selector), ("template", scale.template), ("minimum", scale.minimum)):
        if path is not None:
            yield from _path(f"spec.scale.{name}", path, marks=False)
    if scale.replicas.path.startswith(("$.", "^.")):
        yield InvalidObject("spec.scale.replicas.path", scale.replicas.path, _PATH_FORM)


def _write_back(at: str, rule: WriteBack) -> Iterator[InvalidObject]:
    yield from _path(f"{at}.list", rule.list, marks=True, written=True)
    for name, path in (("items", rule.items), ("template", rule.template)):
        if (path is None) is (rule.entry is not None):
            allowed = (
                "must be set together with entry"
                if path is not None
                else "must be set: the entry has an item for each pod set"
            )
            yield InvalidObject(f"{at}.{name}", path, allowed)
        elif path is not None:
            yield from _path(f"{at}.{name}", path, marks=False)
    if rule.entry is not None and not rule.entry:
        yield InvalidObject(f"{at}.entry", rule.entry, "must have a field by which the entry is known")
    if rule.entry is not None and rule.list.startswith("^."):
        yield InvalidObject(f"{at}.list", rule.list, "must begin at the object: one entry holds all pod sets")


def _by_function(at: str, rule: PodSetRule) -> Iterator[InvalidObject]:
    if rule.function not in FUNCTIONS:
        yield InvalidObject(f"{at}.function", rule.function, f"must be one of {', '.join(FUNCTIONS)}")
    for name, field in type(rule).model_fields.items():
        if name not in ("function", "when") and getattr(rule, name) != field.get_default(call_default_factory=True):
            allowed = "must be left out: the function states it"
            yield InvalidObject(f"{at}.{field.alias or name}", getattr(rule, name), allowed)


def _default_template(at: str, rule: DefaultTemplate) -> Iterator[InvalidObject]:
    yield from _expression(f"{at}.image", rule.image)
    containers = value_at(rule.template, ("spec", "containers"))
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        yield InvalidObject(f"{at}.template", rule.template, "must be a pod template with a container")


def _pod_sets(at: str, rule: PodSetRule) -> Iterator[InvalidObject]:
    yield from _expression(f"{at}.when", rule.when)
    if rule.function is not None:
        yield from _by_function(at, rule)
        return
    if rule.default_template is not None:
        yield from _default_template(f"{at}.defaultTemplate", rule.default_template)
    each = rule.each
    if each is not None and not (_EACH.fullmatch(each) and len(each) <= _LONGEST_PATH):
        yield InvalidObject(f"{at}.each", each, _EACH_FORM)
    many = each is not None and ("[]" in each or "{}" in each)
    if rule.name is not None and (many or not _NAME.fullmatch(rule.name)):
        allowed = "must be left out: entries have names of their own" if many else "must be a DNS label"
        yield InvalidObject(f"{at}.name", rule.name, allowed)
    if rule.order and not (each or "").endswith("{}"):
        yield InvalidObject(f"{at}.order", list(rule.order), "is for maps: `each` must end with {}")
    yield from _path(f"{at}.namePath", rule.name_path, marks=False)
    yield from _path(f"{at}.template", rule.template or "", marks=False, written=each is None)
    if each is not None and _of_server(each):
        yield InvalidObject(f"{at}.each", each, _NOT_OF_SERVER)
    factors = {f"count[{number}]": factor for number, factor in enumerate(rule.count)}
    if rule.sub_groups is not None:
        factors["subGroups"] = rule.sub_groups
    for name, factor in factors.items():
        yield from _factor(f"{at}.{name}", factor)
    if rule.elastic is not None:
        yield from _elastic(f"{at}.elastic", rule, rule.elastic)
    yield from _label(f"{at}.subGroupLabel", rule.sub_group_label)
    if (rule.sub_group_label is None) is not (rule.sub_groups is None):
        lacks = "subGroupLabel" if rule.sub_group_label is None else "subGroups"
        yield InvalidObject(f"{at}.{lacks}", None, "must be set: subGroupLabel and subGroups stand together")
    for number, sidecar in enumerate(rule.sidecars):
        if not _NAME.fullmatch(sidecar.name):
            yield InvalidObject(f"{at}.sidecars[{number}].name", sidecar.name, "must be a DNS label")
        yield from _expression(f"{at}.sidecars[{number}].when", sidecar.when)
        if sidecar.resources is not None:
            yield from _path(f"{at}.sidecars[{number}].resources", sidecar.resources, marks=False)
        yield from _requests(f"{at}.sidecars[{number}].requests", sidecar.requests)
    if rule.rank_offset is not None:
        yield from _expression(f"{at}.rankOffset.when", rule.rank_offset.when)


def _elastic(at: str, rule: PodSetRule, elastic: ElasticCount) -> Iterator[InvalidObject]:
    if not rule.count:
        yield InvalidObject(at, None, "must be set together with count, whose first number changes")
    if elastic.keys and not (rule.each or "").endswith("{}"):
        yield InvalidObject(f"{at}.keys", list(elastic.keys), "is for maps: `each` must end with {}")
    for key in elastic.keys:
        if rule.order and key not in rule.order:
            yield InvalidObject(f"{at}.keys", key, f"must be one of {', '.join(rule.order)}")
    for name, path in (("minimum", elastic.minimum), ("maximum", elastic.maximum)):
        if path is not None:
            yield from _path(f"{at}.{name}", path, marks=True)


def _factor(at: str, factor: Factor) -> Iterator[InvalidObject]:
    yield from _path(f"{at}.path", factor.path, marks=True)


def _status(spec: JobKindSpec) -> Iterator[InvalidObject]:
    rules = spec.status
    tests = {
        "active": rules.active,
        "ready": rules.ready,
        "succeeded": rules.succeeded,
        "failed": rules.failed,
        "onHold": rules.on_hold,
    }
    for name, test in tests.items():
        if test is not None:
            yield from _test(f"spec.status.{name}", test)
    if rules.message is not None:
        yield from _path("spec.status.message", rules.message, marks=False)


def _test(at: str, test: Test) -> Iterator[InvalidObject]:
    given = [name for name in ("condition", "path", "expression") if getattr(test, name) is not None]
    if len(given) != 1:
        yield InvalidObject(at, given, "must have exactly one of condition, path and expression")
    if test.path is not None:
        yield from _path(f"{at}.path", test.path, marks=False)
    if (test.path is not None) != bool(test.values):
        yield InvalidObject(
            f"{at}.values", list(test.values), "must be set together with path, with at least one value"
        )
    yield from _expression(f"{at}.expression", test.expression)


def _expression(at: str, text: str | None) -> Iterator[InvalidObject]:
    if text is None:
        return
    if len(text) > MAX_EXPRESSION:
        yield InvalidObject(at, f"{len(text)} characters", f"must have at most {MAX_EXPRESSION} characters")
        return
    try:
        compile_cel(text)
    except CelError as error:
        yield InvalidObject(at, text, f"must be CEL: {error}")


def _path(at: str, path: str, *, marks: bool, written: bool = False) -> Iterator[InvalidObject]:
    marked = path.startswith(("$.", "^."))
    if not _PATH.fullmatch(path) or len(path) > _LONGEST_PATH or (marked and not marks):
        yield InvalidObject(at, path, _PATH_FORM)
    elif written and _of_server(path):
        yield InvalidObject(at, path, _NOT_OF_SERVER)


def _of_server(path: str) -> bool:
    """Reports whether the path, from the object, leads to a field that a start must not write."""
    return re.split(r"[.\[{]", path.removeprefix("$."), maxsplit=1)[0] in _OF_SERVER


def _label(at: str, label: str | None) -> Iterator[InvalidObject]:
    if label is not None and not _LABEL.fullmatch(label):
        yield InvalidObject(at, label, "must be the key of a label")


def _requests(at: str, requests: dict[str, str]) -> Iterator[InvalidObject]:
    for name, amount in sorted(requests.items()):
        try:
            parse(amount)
        except InvalidQuantity:
            yield InvalidObject(f"{at}.{name}", amount, "must be a quantity")
