"""Every parser of a number in text refuses digits of other scripts, blanks and underscores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer
from pydantic import TypeAdapter

from admission.cli.main import seconds as option
from admission.kueue_settings import Duration
from api.annotations.requests import parse_int32
from api.embedded.rest import routes
from api.errors import ApiError, InvalidObject
from api.names import POD_INDEX_OFFSET
from api.sakkara import read_group
from api.text import duration
from api.text.quantity import parse
from tests.builders import pod, workload
from ungater.gate_plan import plan


def _int32(text: str) -> int:
    if (found := parse_int32(text)) is None:
        raise ValueError(text)
    return found


def _offset(text: str) -> Any:
    made = pod("p", labels={"index": "0"}, annotations={POD_INDEX_OFFSET: text})
    return plan(workload(domains=[(("n1",), 1)], topology_request={"podIndexLabel": "index"}), [made])


def _group(text: str) -> Any:
    found = read_group("g", {"size": text})
    if found.faults:
        raise ValueError(text)
    return found


PARSERS: dict[str, Callable[[str], Any]] = {
    "quantity": parse,
    "annotation": _int32,
    "offset of the pod index": _offset,
    "size of a Sakkara group": _group,
    "duration": lambda text: duration.seconds(f"{text}s"),
    "setting of seconds": TypeAdapter(Duration).validate_python,
    "option of seconds": option,
    "limit of a list": lambda text: routes.number({"limit": text}, "limit"),
    "resource version": lambda text: routes.version({"resourceVersion": text}),
}
REFUSED = (ValueError, InvalidObject, ApiError, typer.BadParameter)


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS.keys())
def test_a_number_of_other_characters_is_refused(parser: Callable[[str], Any]) -> None:
    parser("1")
    for text in ("٣", "1٣", "²", " 1", "1 ", "1\n", "1_0", "\u00a01"):
        with pytest.raises(REFUSED):
            parser(text)
