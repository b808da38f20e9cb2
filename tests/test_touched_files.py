"""A reason, a setting and a constraint word are each declared in one place: nothing else lists them by hand.

docs/architecture.md has the files that such a change touches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from admission.engine.model import LevelConstraint, LevelRule
from admission.engine.reasons import Reason
from admission.settings import AdmissionSettings
from api.annotations.constraints import WORDS
from api.topology_request import PlacementConstraint
from ungater.settings import UngaterSettings

PROJECT = Path(__file__).resolve().parents[1]
DECLARATION = "admission/engine/reasons.py"
GROUPS = {
    "admission/engine/cycle/outcomes.py": "those after which a head may wait for ever",
    "admission/engine/flavors/assign.py": "which of the reasons of several flavors is told",
    "admission/engine/queue/cluster_queue.py": "those of a head that freed capacity can help",
    "admission/engine/explain/wording.py": "the nouns of an explanation's reasons about nodes",
}
"""Modules that speak of three reasons or more together, and of which."""


@cache
def product() -> dict[str, str]:
    """Text by path."""
    files = sorted(file for top in ("admission", "api", "ungater") for file in (PROJECT / top).rglob("*.py"))
    return {str(file.relative_to(PROJECT)): file.read_text() for file in files}


def reasons_in(node: ast.expr | None) -> int:
    """How many members of Reason a literal names as its elements or keys."""
    parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
    return sum(isinstance(part, ast.Attribute) and ast.unparse(part.value) == "Reason" for part in parts)


def test_no_module_lists_the_reasons_by_hand() -> None:
    lists = {
        name
        for name, text in product().items()
        if name != DECLARATION and "Reason." in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Dict, ast.Set, ast.Tuple, ast.List)) and reasons_in(node) >= 3
    }
    assert lists == GROUPS.keys()


def test_every_reason_is_given_somewhere() -> None:
    given = "\n".join(text for name, text in product().items() if name != DECLARATION)
    assert [reason.name for reason in Reason if f"Reason.{reason.name}" not in given] == []


def leaves(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, str]]:
    """The path and the last name of each setting."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaves(kind, f"{above}{name}.")
        else:
            yield f"{above}{name}", name


SETTINGS = [
    pytest.param(name, id=f"{file.partition('/')[0]}-{path}")
    for file, model in (("admission/settings.py", AdmissionSettings), ("ungater/settings.py", UngaterSettings))
    for path, name in leaves(model)
]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_read(name: str) -> None:
    """Its field is its declaration; the line that passes it on reads it."""
    assert any(re.search(rf"\.{name}\b", text) for text in product().values())


def test_the_words_of_a_constraint_follow_from_its_type() -> None:
    assert tuple(word for word in PlacementConstraint.model_fields if word != "level") == WORDS
    words = [field.name for field in fields(LevelConstraint)]
    assert len(words) == len(PlacementConstraint.model_fields)
    assert [field.name for field in fields(LevelRule)][: len(words)] == words, "the rule is the constraint, and more"
