"""The routes of the HTTP API, each declared once: its path, its models, and the call that answers it.

The server dispatches by this table, openapi.py describes it, tools.py makes a tool of each, and the tests of access go
through it, so that none is forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError

from admission.dashboard.dashboard import Dashboard, bad_request
from admission.dashboard.serve import answers
from admission.dashboard.serve.forecast import Forecast, forecast
from admission.dashboard.viewer import Viewer
from admission.serving.bounded_server import Refused

PREFIX: Final = "/api/v1/"
EVENTS: Final = f"{PREFIX}events"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query."""

    name: str
    text: str
    number: bool = False
    """Whether it is a non-negative integer."""
    of_tool: int | None = None
    """What a tool takes by default."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: names of the path, the query, and the body by Python names."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]


Call = Callable[[Dashboard, Viewer, Asked], Awaitable[Any]]
"""Returns the answer as plain data, or as JSON in bytes."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route below PREFIX. `rights` says in words which rights the viewer needs; `tool` whether it is a tool as well."""

    path: str
    name: str
    summary: str
    rights: str
    answer: type[BaseModel] | None
    call: Call
    method: str = "GET"
    query: tuple[Parameter, ...] = ()
    body: type[BaseModel] | None = None
    tool: bool = True

    @property
    def names(self) -> list[str]:
        """The names in the path."""
        return [part.strip("{}") for part in self.parts if part.startswith("{")]

    @property
    def parts(self) -> list[str]:
        """The segments of the path; a name in braces stands for any."""
        return self.path.split("/")


async def _session(dashboard: Dashboard, viewer: Viewer, asked: Asked) -> Any:
    facts = dashboard.facts
    return {"user": viewer.name, "signIn": facts.sign_in, "version": facts.version, "cluster": facts.cluster}


_LISTED: Final = (
    Parameter("namespace", "Only Workloads of this namespace."),
    Parameter("queue", "Only Workloads of this LocalQueue."),
    Parameter("clusterQueue", "Only Workloads of this ClusterQueue."),
    Parameter("state", "Only Workloads in this state: Pending, Reserved, Admitted, Evicted or Finished."),
    Parameter("reason", "Only Workloads whose condition has this reason."),
    Parameter(
        "limit", "Most Workloads to return, 100000 at most; by default 10000, 50 by a tool.", number=True, of_tool=50
    ),
    Parameter("offset", "The first Workload to return, from 0.", number=True),
)
_ANY: Final = "none: what the asker may not see is left out"
_NODES: Final = "list nodes"
_IN_NAMESPACE: Final = "list workloads in the namespace"

ROUTES: Final = (
    Route(
        "session", "session", "The user and the cluster.", "a token that the cluster accepts", answers.Session, _session
    ),
    Route(
        "topology",
        "topologies",
        "The flavors with a topology.",
        _NODES,
        answers.Topologies,
        lambda dashboard, viewer, asked: dashboard.topologies(viewer),
    ),
    Route(
        "topology/{flavor}",
        "tree",
        "The tree of a flavor: hosts, what they have, what runs where.",
        _NODES,
        answers.Tree,
        lambda dashboard, viewer, asked: dashboard.tree(viewer, asked.path["flavor"]),
        tool=False,  # columns for a picture, megabytes of them
    ),
    Route(
        "hosts/{name}",
        "host",
        "One host and what runs on it.",
        _NODES,
        answers.HostAnswer,
        lambda dashboard, viewer, asked: dashboard.host(viewer, asked.path["name"]),
    ),
    Route(
        "occupancy",
        "occupancy",
        "Sums of the flavors with a topology.",
        _NODES,
        answers.Occupancy,
        lambda dashboard, viewer, asked: dashboard.occupancy(viewer),
    ),
    Route(
        "queues",
        "queues",
        "ClusterQueues and cohorts with their quota.",
        "list clusterqueues",
        answers.Queues,
        lambda dashboard, viewer, asked: dashboard.queues(viewer),
    ),
    Route(
        "workloads",
        "workloads",
        "Workloads that wait or run.",
        _ANY,
        answers.Workloads,
        lambda dashboard, viewer, asked: dashboard.workloads(viewer, asked.query),
        query=_LISTED,
    ),
    Route(
        "workloads/{namespace}/{name}",
        "workload",
        "One Workload: why it waits or where it runs, and its conditions.",
        _IN_NAMESPACE,
        answers.WorkloadDetail,
        lambda dashboard, viewer, asked: dashboard.workload(viewer, asked.path["namespace"], asked.path["name"]),
    ),
    Route(
        "workloads/{namespace}/{name}/explanation",
        "explain",
        "The engine's explanation of a Workload.",
        _IN_NAMESPACE,
        None,
        lambda dashboard, viewer, asked: dashboard.explain(viewer, asked.path["namespace"], asked.path["name"]),
    ),
    Route(
        "what-if",
        "whatIf",
        "Would these jobs start now, where, and if not, what would let them?",
        _IN_NAMESPACE,
        answers.WhatIfAnswer,
        lambda dashboard, viewer, asked: dashboard.what_if(viewer, asked.body),
        method="POST",
        body=answers.WhatIf,
    ),
    Route(
        "forecast",
        "forecast",
        "Expected starts of waiting Workloads.",
        _ANY,
        Forecast,
        lambda dashboard, viewer, asked: forecast(dashboard, viewer),
    ),
    Route(
        "search",
        "search",
        "Things whose name contains a text.",
        _ANY,
        answers.SearchResult,
        lambda dashboard, viewer, asked: dashboard.search(viewer, asked.query.get("q", "")),
        query=(Parameter("q", "The text."),),
    ),
)


def checked(model: type[BaseModel], value: Any, whole: str) -> dict[str, Any]:
    """Returns a value that was sent, by Python names. Raises Refused, which names the first bad field, or `whole`."""
    try:
        return model.model_validate(value).model_dump()
    except ValidationError as bad:
        first = bad.errors(include_url=False)[0]
        where = ".".join(str(part)[:64] for part in first["loc"][:8]) or whole
        if isinstance(first["input"], str | int | float | None):
            raise bad_request(where, first["input"], first["msg"]) from None
        raise Refused(400, "BadRequest", f"{where}: {first['msg']}") from None


def check_query(route: Route, query: Mapping[str, str]) -> None:
    """Raises Refused for a parameter that the route does not have: a misspelt one would select nothing in silence."""
    known = [each.name for each in route.query]
    for name in query:
        if name not in known:
            allowed = f"must be {' or '.join(known)}" if known else "this route has no parameters"
            raise bad_request("query", name, allowed)


def matched(raw_path: str) -> tuple[list[Route], dict[str, str]]:
    """Returns the routes of a raw path, without regard to the method, and the names in the path."""
    given = [unquote(part) for part in raw_path.removeprefix(PREFIX).split("/")]
    for route in ROUTES:
        names = _names(route.parts, given)
        if names is not None:
            return [route], names
    return [], {}


def _names(parts: list[str], segments: list[str]) -> dict[str, str] | None:
    if len(parts) != len(segments):
        return None
    names = {}
    for part, value in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not value:
                return None
            names[part.strip("{}")] = value
        elif part != value:
            return None
    return names
