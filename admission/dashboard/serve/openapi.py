"""The OpenAPI document of the HTTP API, made from the table of routes and the models."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from admission.dashboard.serve import answers
from admission.dashboard.serve.routes import EVENTS, PREFIX, ROUTES, Route

_REF: Final = "#/components/schemas/{model}"
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
REFUSALS: Final = {
    "400": "The request cannot be read.",
    "401": "No token, or one that the cluster does not accept.",
    "403": "The user may not see this.",
    "404": "There is no such object or route.",
    "413": "The body is too long.",
    "414": "The path is too long.",
    "415": "The body is not application/json.",
    "429": "Too many questions at once.",
    "500": "An error of the process, which its log has.",
    "503": "The process has not read the cluster yet, or the API server does not answer.",
}
_EVENTS: Final = (
    "Server-sent events: `hello` {version}; `topology` {flavor, version, hosts}, with a host's position `i` and what the tree "
    "has of it, and its runs as [workload, ClusterQueue, pods, amounts]; `structure` {flavor}: ask for the tree again; "
    "`workloads` {changed, removed}; `queues` {}: ask for the queues again. "
    "A comment every 10 s. What the asker may not see is left out."
)


def document(version: str) -> dict[str, Any]:
    """Returns the document. `version` is that of Stowage."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    paths[EVENTS] = {"get": _events()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stowage dashboard", "version": version},
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


@cache
def _schemas() -> dict[str, Any]:
    """Returns the schemas of all answers and bodies by name. Made once a process: each time takes 60 ms."""
    written: set[type[BaseModel]] = {route.answer for route in ROUTES if route.answer is not None}
    read: set[type[BaseModel]] = {route.body for route in ROUTES if route.body is not None}
    written.add(answers.Error)
    modes: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = [
        *((model, "serialization") for model in sorted(written, key=lambda model: model.__name__)),
        *((model, "validation") for model in sorted(read, key=lambda model: model.__name__)),
    ]
    _, schemas = models_json_schema(modes, ref_template=_REF)
    defined: dict[str, Any] = schemas["$defs"]
    return defined


def _operation(route: Route) -> dict[str, Any]:
    inside = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in route.names]
    query = [
        {"name": each.name, "in": "query", "description": each.text, "schema": _NUMBER if each.number else _TEXT}
        for each in route.query
    ]
    schema = {"type": "object"} if route.answer is None else {"$ref": _ref(route.answer.__name__)}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"Rights: {route.rights}.",
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
            **_refusals(),
        },
    }
    if inside or query:
        operation["parameters"] = [*inside, *query]
    if route.body is not None:
        content = {"application/json": {"schema": {"$ref": _ref(route.body.__name__)}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _events() -> dict[str, Any]:
    content = {"text/event-stream": {"schema": _TEXT}}
    return {
        "operationId": "events",
        "summary": "Changes as they happen.",
        "description": _EVENTS,
        "responses": {"200": {"description": "OK", "content": content}, **_refusals()},
    }


def _refusals() -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _ref("Error")}}}
    return {status: {"description": text, "content": content} for status, text in REFUSALS.items()}


def _ref(name: str) -> str:
    return _REF.replace("{model}", name)
