"""What is wrong with required node affinity that says nothing: an unknown operator, values that it cannot have.

The API server lets no such Pod or Job in, but a Workload's template is not looked at there. match.py would find no node for
such an expression; the pod set is told the reason instead (placement.md 5.3). Called by constraints.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from admission.engine.model import NodeSelectorTerm, Requirement
from admission.engine.topology.tree.match import int64

_BY_VALUES = ("In", "NotIn")
_BY_NUMBER = ("Gt", "Lt")
_BY_PRESENCE = ("Exists", "DoesNotExist")
_OPERATORS = (*_BY_VALUES, *_BY_PRESENCE, *_BY_NUMBER)


def malformed(terms: Iterable[NodeSelectorTerm]) -> str | None:
    """The first requirement that is none, as the message of the placement; None where all are sound."""
    for term in terms:
        wrong = [(one, _expression_problem(one)) for one in term.match_expressions]
        wrong += [(one, _field_problem(one)) for one in term.match_fields]
        for one, problem in wrong:
            if problem:
                values = " ".join(one.values)
                return f"invalid affinity node selectors: {one.key} {one.operator} [{values}], reason: {problem}"
    return None


def _expression_problem(one: Requirement) -> str | None:
    if one.operator not in _OPERATORS:
        return f"the operator must be one of {', '.join(_OPERATORS)}"
    if one.operator in _BY_VALUES and not one.values:
        return f"{one.operator} needs at least one value"
    if one.operator in _BY_PRESENCE and one.values:
        return f"{one.operator} takes no values"
    if one.operator in _BY_NUMBER and (len(one.values) != 1 or int64(one.values[0]) is None):
        return f"{one.operator} needs exactly one value, an integer"
    return None


def _field_problem(one: Requirement) -> str | None:
    if one.operator not in _BY_VALUES:
        return f"the operator of a field must be one of {', '.join(_BY_VALUES)}"
    return None if len(one.values) == 1 else f"{one.operator} needs exactly one value for a field"
