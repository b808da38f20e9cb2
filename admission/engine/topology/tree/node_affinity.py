"""Detects malformed required node affinity: an unknown operator, or values that the operator does not allow.

The API server rejects such a Pod or Job, but does not check the pod template of a Workload. match.py would find no node
for such an expression, so the pod set gets this reason instead (placement.md 5.3). Called by constraints.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from admission.engine.model import NodeSelectorRequirement, NodeSelectorTerm
from admission.engine.topology.tree.match import int64

_BY_VALUES = ("In", "NotIn")
_BY_NUMBER = ("Gt", "Lt")
_BY_PRESENCE = ("Exists", "DoesNotExist")
_OPERATORS = (*_BY_VALUES, *_BY_PRESENCE, *_BY_NUMBER)


def malformed(terms: Iterable[NodeSelectorTerm]) -> str | None:
    """Returns the message for the first malformed requirement; None if all are well-formed."""
    for term in terms:
        wrong = [(one, _expression_problem(one)) for one in term.match_expressions]
        wrong += [(one, _field_problem(one)) for one in term.match_fields]
        for one, problem in wrong:
            if problem:
                values = " ".join(one.values)
                return f"invalid affinity node selectors: {one.key} {one.operator} [{values}], reason: {problem}"
    return None


def _expression_problem(requirement: NodeSelectorRequirement) -> str | None:
    if requirement.operator not in _OPERATORS:
        return f"the operator must be one of {', '.join(_OPERATORS)}"
    if requirement.operator in _BY_VALUES and not requirement.values:
        return f"{requirement.operator} needs at least one value"
    if requirement.operator in _BY_PRESENCE and requirement.values:
        return f"{requirement.operator} takes no values"
    if requirement.operator in _BY_NUMBER and (len(requirement.values) != 1 or int64(requirement.values[0]) is None):
        return f"{requirement.operator} needs exactly one value, an integer"
    return None


def _field_problem(requirement: NodeSelectorRequirement) -> str | None:
    if requirement.operator not in _BY_VALUES:
        return f"the operator of a field must be one of {', '.join(_BY_VALUES)}"
    return None if len(requirement.values) == 1 else f"{requirement.operator} needs exactly one value for a field"
