"""The routes as tools of the Model Context Protocol (MCP): each route that is one is declared in routes.py alone.

A tool's arguments are the names in the route's path, its query and its body, described by a model; its answer is the route's.
mcp_server.py serves them by the official SDK, which this module does not need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from admission.dashboard.dashboard import Dashboard
from admission.dashboard.serve.encoding import TooLong, encoded
from admission.dashboard.serve.routes import ROUTES, Asked, Route, checked
from admission.dashboard.viewer import Viewer
from admission.serving.bounded_server import Refused

LONGEST_ANSWER: Final = 1 << 20
"""Bytes of an answer. More would fill an assistant's context many times, and hold the loop while it is encoded."""
_LONGEST_NAME: Final = 253
_Name = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_NAME)]
_Text = Annotated[str, StringConstraints(max_length=_LONGEST_NAME)]


@dataclass(frozen=True, slots=True)
class Tool:
    """A route as a tool. `arguments` is a model of all that it takes."""

    name: str
    route: Route
    arguments: type[BaseModel]

    @property
    def description(self) -> str:
        """What it answers, and the rights that it needs."""
        return f"{self.route.summary} Rights: {self.route.rights}."

    def input_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the arguments."""
        return self.arguments.model_json_schema()

    def output_schema(self) -> dict[str, Any] | None:
        """Returns the JSON schema of the answer, None for one without a model."""
        return None if self.route.answer is None else self.route.answer.model_json_schema(mode="serialization")

    async def call(
        self, dashboard: Dashboard, viewer: Viewer, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        """Returns the answer, and the same as JSON. Raises Refused; for bad arguments it names the first bad one."""
        checked_arguments = checked(self.arguments, dict(arguments), "the arguments")
        if self.route.body is not None:
            asked = Asked({}, {}, checked_arguments)
        else:
            path = {name: checked_arguments.pop(name) for name in self.route.names}
            asked = Asked(
                path, {name: str(value) for name, value in checked_arguments.items() if value not in ("", None)}, {}
            )
        answer: dict[str, Any] = await self.route.call(dashboard, viewer, asked)
        try:
            return answer, await encoded(answer, LONGEST_ANSWER)
        except TooLong:
            raise Refused(413, "TooLarge", f"the answer has more than {LONGEST_ANSWER} bytes; ask for less") from None


def _arguments(route: Route) -> type[BaseModel]:
    if route.body is not None:
        return route.body
    fields: dict[str, Any] = dict.fromkeys(route.names, (_Name, ...))
    for each in route.query:
        if each.number:
            kind: Any = Annotated[int, Field(ge=0, description=each.text)] | None
        else:
            kind = Annotated[_Text, Field(description=each.text)]
        fields[each.name] = (kind, each.of_tool if each.number else "")
    config = ConfigDict(extra="forbid")
    made: type[BaseModel] = create_model(
        f"{route.name[0].upper()}{route.name[1:]}Arguments", __config__=config, **fields
    )
    return made


def _named(route: Route) -> str:
    return re.sub(r"(?=[A-Z])", "_", route.name).lower()


TOOLS: Final = {_named(route): Tool(_named(route), route, _arguments(route)) for route in ROUTES if route.tool}
