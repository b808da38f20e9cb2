"""The operators, functions, methods and macros of CEL, for the parser in cel.py.

An Expression computes a value from the variables in a Scope. Operations on values raise CelError or one of `FAULTS`.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from api.cel.cel_authorizer import STEPS, Authorizer
from api.cel.cel_budget import CelError, EvaluationBudget

Scope = Mapping[Any, Any]
Expression = Callable[[Scope], Any]

COMPARISONS = {
    "==": lambda left, right: _equal(left, right),
    "!=": lambda left, right: not _equal(left, right),
    "<": lambda left, right: operator.lt(*_alike(left, right)),
    "<=": lambda left, right: operator.le(*_alike(left, right)),
    ">": lambda left, right: operator.gt(*_alike(left, right)),
    ">=": lambda left, right: operator.ge(*_alike(left, right)),
}
MISSING = object()
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_MAX_INT: Final = 2**63 - 1
_COPIED_PER_STEP: Final = 64
FAULTS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python raises for a value of the wrong type or size."""
METHODS: Final[Mapping[str, int]] = {
    "orValue": 1,
    "hasValue": 0,
    "startsWith": 1,
    "endsWith": 1,
    "contains": 1,
    "size": 0,
    "sum": 0,
    "lowerAscii": 0,
    "split": 1,
    **dict.fromkeys(STEPS, 1),
    "allowed": 0,
}
"""Methods, with their number of arguments."""
MACROS: Final[Mapping[str, Callable[[Iterator[tuple[Any, Any]]], Any]]] = {
    "exists": lambda pairs: any(found for _, found in pairs),
    "all": lambda pairs: all(found for _, found in pairs),
    "exists_one": lambda pairs: sum(bool(found) for _, found in pairs) == 1,
    "filter": lambda pairs: [item for item, found in pairs if found],
    "map": lambda pairs: [found for _, found in pairs],
}


def elements(value: Any, scope: Scope) -> Sequence[Any]:
    """Returns the elements of a list or the keys of a map. Raises CelError for other values."""
    if not isinstance(value, Mapping | list | tuple):
        raise CelError(f"neither a list nor a map: {_shown(value)}")
    scope[EvaluationBudget].take(len(value) // _COPIED_PER_STEP)
    return tuple(value)


def combined(
    combine: Callable[[Any, Any], Any], left: Expression, right: Expression, *, read: bool = False
) -> Expression:
    """Returns an expression that combines two results. With `read`, it pays for reading both of them."""
    if not read:
        return lambda scope: combine(left(scope), right(scope))

    def combine_read(scope: Scope) -> Any:
        one, other, budget = left(scope), right(scope), scope[EvaluationBudget]
        budget.take_for(one)
        budget.take_for(other)
        return combine(one, other)

    return combine_read


def _shown(value: Any) -> str:
    """Returns the value for a message, in constant time: it may be large, or contain one list so often that its text would fill
    the memory.
    """
    if isinstance(value, Mapping | list | tuple):
        return f"a {'map' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    return "an absent field" if value is MISSING else repr(value[:80] if isinstance(value, str) else value)


def _equal(left: Any, right: Any) -> bool:
    """Compares like CEL, in which true and 1 are not equal."""
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Returns both values if they can be ordered. Raises CelError otherwise."""
    if type(left) is not type(right) or not isinstance(left, int | float | str) or isinstance(left, bool):
        raise CelError(f"cannot be ordered: {_shown(left)} and {_shown(right)}")
    return left, right


def integer(text: str) -> int:
    """Returns the integer of a literal. Raises CelError if it has more than 64 bits."""
    return bounded(int(text) if len(text) <= len(str(_MAX_INT)) else _MAX_INT + 1)


def number(value: Any) -> int:
    """Returns the value if it is an integer. Raises CelError otherwise."""
    if type(value) is not int:
        raise CelError(f"not an integer: {_shown(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CelError(f"not a string: {_shown(value)}")
    return value


def bounded(value: int) -> int:
    """Returns the integer. Raises CelError if it has more than 64 bits."""
    if abs(value) > _MAX_INT:
        raise CelError("integer overflow")
    return value


def add(left: Any, right: Any) -> Any:
    """Adds integers, or joins two strings or two lists. Raises CelError for other values."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return [*left, *right]
    return bounded(number(left) + number(right))


def subtract(left: Any, right: Any) -> int:
    """Subtracts integers. Raises CelError for other values."""
    return bounded(number(left) - number(right))


def _divide(left: Any, right: Any) -> int:
    """Divides and rounds toward zero, as in CEL."""
    quotient = abs(number(left)) // abs(number(right))
    return quotient if (left < 0) is (right < 0) else -quotient


PRODUCTS: Final[Mapping[str, Callable[[Any, Any], int]]] = {
    "*": lambda left, right: bounded(number(left) * number(right)),
    "/": _divide,
    "%": lambda left, right: left - _divide(left, right) * right,
}


def field(value: Any, name: Any) -> Any:
    """Returns the entry of a map, or the item of a list at a position from 0. Raises CelError."""
    listed = isinstance(value, list | tuple)
    if isinstance(value, Mapping) or (listed and type(name) is int and name >= 0):
        with contextlib.suppress(LookupError, TypeError):
            return value[name]
    raise CelError(f"no such key: {name[:80] if isinstance(name, str) else _shown(name)}")


def value_or_missing(expression: Expression, scope: Scope) -> Any:
    """Evaluates the expression; MISSING if that fails."""
    try:
        return expression(scope)
    except (CelError, *FAULTS):
        return MISSING


def selected(value: Expression, key: Expression, *, optional: bool) -> Expression:
    """Returns the selection of a field. After an optional step an absent field stays absent until orValue."""

    def read(scope: Scope) -> Any:
        base = value(scope)
        if base is MISSING:
            return MISSING
        if not optional:
            return field(base, key(scope))
        return base.get(key(scope), MISSING) if isinstance(base, Mapping) else MISSING

    return read


def called(value: Expression, name: str, arguments: list[Expression]) -> Expression:
    """Returns the call of a method in `METHODS` on a value."""

    def call(scope: Scope) -> Any:
        base, given = value(scope), [argument(scope) for argument in arguments]
        match name:
            case "orValue":
                return given[0] if base is MISSING else base
            case "hasValue":
                return base is not MISSING
            case "startsWith" | "endsWith":
                scope[EvaluationBudget].take_for(given[0])
                test = _text(base).startswith if name == "startsWith" else _text(base).endswith
                return test(_text(given[0]))
            case "contains":
                scope[EvaluationBudget].take_for(base)
                return _text(given[0]) in _text(base)
            case "size":
                return len(base)
            case "sum":
                scope[EvaluationBudget].take_for(base)
                return bounded(sum(map(number, elements(base, scope))))
            case "lowerAscii" | "split":
                scope[EvaluationBudget].take_for(base)
                return _text(base).lower() if name == "lowerAscii" else _text(base).split(_text(given[0]))
            case "allowed":
                return _authorizer(base).allowed()
            case _ if name in STEPS:
                return _authorizer(base).step(name, _text(given[0]))
        raise AssertionError(name)

    return call


def _authorizer(value: Any) -> Authorizer:
    if not isinstance(value, Authorizer):
        raise CelError(f"not an authorizer: {_shown(value)}")
    return value


def whole_number(value: Any) -> int:
    """Returns an integer, or the integer that a text writes. Raises CelError."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return bounded(int(value))
    return number(value)


def logical(terms: list[Expression], scope: Scope, decisive: bool) -> bool:
    """Evaluates || or &&: a decisive side wins even if another side fails."""
    failed: Exception | None = None
    for term in terms:
        try:
            if bool(term(scope)) is decisive:
                return decisive
        except (CelError, *FAULTS) as error:
            failed = error
    if failed is not None:
        raise failed
    return not decisive
