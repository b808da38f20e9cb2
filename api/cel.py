"""A small evaluator of CEL, for webhooks' matchConditions and the expressions of JobKinds.

Supports `||`, `&&`, `!`, `==`, `!=`, `<` `<=` `>` `>=`, `in`, `+` `-` `*` `/` `%` on integers (`+` on strings and lists too),
parentheses, the ternary, field access (`a.b`, `a["b"]`, optional `a.?b` and `a[?"b"]` with `.orValue(x)` and `.hasValue()`),
`has(a.b)`, `size(x)`, `startsWith`, `endsWith`, `contains`, the macros `exists`, `all`, `exists_one`, `filter` and `map`,
`sum()` of a list of numbers, lists, strings, integers, booleans and null. Anything else raises CelError, as do evaluation
errors: a missing field, a wrong type, an integer beyond 64 bits, more work than cel_budget.py allows. The embedded API server
does not evaluate the CEL rules of CRDs.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from api.cel_budget import TOKENS_PER_STEP, CelError, CelWorkError, EvaluationBudget, OutOfSteps

__all__ = ["CelError", "Expression", "Scope", "compile_cel"]

Scope = Mapping[Any, Any]
Expression = Callable[[Scope], Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<str>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<int>\d+)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<op>\|\||&&|==|!=|<=|>=|\.\?|\[\?|[-+*/%!<>().,?:\[\]]))"""
)
_COMPARE = {
    "==": lambda left, right: _equal(left, right),
    "!=": lambda left, right: not _equal(left, right),
    "<": lambda left, right: operator.lt(*_alike(left, right)),
    "<=": lambda left, right: operator.le(*_alike(left, right)),
    ">": lambda left, right: operator.gt(*_alike(left, right)),
    ">=": lambda left, right: operator.ge(*_alike(left, right)),
}
_MISSING = object()
_LONGEST = 10_000
_MAX_INT: Final = 2**63 - 1
_COPIED_PER_STEP: Final = 64
_FAULTS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python raises for a value of the wrong type or size."""


@lru_cache(maxsize=256)
def compile_cel(text: str) -> Expression:
    """Compiles an expression to a function of its variables. Both raise CelError and nothing else.

    The variables may have an EvaluationBudget, under its class as the key: else the evaluation has one of its own.
    """
    if len(text) > _LONGEST:
        raise CelError(f"an expression has at most {_LONGEST} characters, not {len(text)}")
    parser = _Parser(_tokens(text), text)
    try:
        expression = parser.ternary()
    except RecursionError:
        raise CelError(f"nested too deep: {text[:80]!r}") from None
    parser.end()

    def evaluate(scope: Scope) -> Any:
        try:
            return expression({EvaluationBudget: EvaluationBudget(), **scope})
        except OutOfSteps as error:
            raise CelWorkError(str(error)) from None
        except _FAULTS as error:
            raise CelError(f"{text[:80]!r}: {error}") from None

    return evaluate


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at, text = [], 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found or not found.lastgroup:
            raise CelError(f"cannot read {text[at : at + 20]!r} in {text!r}")
        tokens.append((found.lastgroup, found.group(found.lastgroup)))
        at = found.end()
    return tokens


class _Parser:
    """A recursive descent parser. Each method returns a function of the scope."""

    def __init__(self, tokens: list[tuple[str, str]], text: str) -> None:
        self._tokens, self._at, self._text = tokens, 0, text

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise CelError(f"unexpected {self._tokens[self._at][1]!r} in {self._text!r}")

    def _peek(self, *texts: str) -> bool:
        return (
            self._at < len(self._tokens) and self._tokens[self._at][1] in texts and self._tokens[self._at][0] != "str"
        )

    def _take(self, *texts: str) -> str | None:
        if self._peek(*texts):
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise CelError(f"expected {text!r} in {self._text!r}")

    def _name(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "name":
            self._at += 1
            return self._tokens[self._at - 1][1]
        raise CelError(f"expected a name in {self._text!r}")

    def ternary(self) -> Expression:
        test = self._or()
        if not self._take("?"):
            return test
        yes = self.ternary()
        self._need(":")
        no = self.ternary()
        return lambda scope: yes(scope) if test(scope) else no(scope)

    def _or(self) -> Expression:
        terms = [self._and()]
        while self._take("||"):
            terms.append(self._and())
        return terms[0] if len(terms) == 1 else lambda scope: _either(terms, scope, True)

    def _and(self) -> Expression:
        terms = [self._relation()]
        while self._take("&&"):
            terms.append(self._relation())
        return terms[0] if len(terms) == 1 else lambda scope: _either(terms, scope, False)

    def _relation(self) -> Expression:
        left = self._sum()
        if self._take("in"):
            right = self._sum()

            def within(scope: Scope) -> bool:
                sought, where = left(scope), right(scope)
                if not isinstance(where, Mapping):
                    scope[EvaluationBudget].take_for(where)
                return sought in (where or ())

            return within
        if op := self._take(*_COMPARE):
            return _both(_COMPARE[op], left, self._sum(), read=True)
        return left

    def _sum(self) -> Expression:
        left = self._product()
        while op := self._take("+", "-"):
            left = _both(_add if op == "+" else _subtract, left, self._product(), read=True)
        return left

    def _product(self) -> Expression:
        left = self._unary()
        while op := self._take("*", "/", "%"):
            left = _both(_PRODUCTS[op], left, self._unary())
        return left

    def _unary(self) -> Expression:
        if self._take("!"):
            inner = self._unary()
            return lambda scope: not inner(scope)
        if self._take("-"):
            number = self._unary()
            return lambda scope: _whole(-_number(number(scope)))
        return self._member(self._primary())

    def _primary(self) -> Expression:
        if self._take("("):
            inner = self.ternary()
            self._need(")")
            return inner
        if self._take("["):
            items = self._arguments("]")
            return lambda scope: [item(scope) for item in items]
        if self._at >= len(self._tokens):
            raise CelError(f"unexpected end of {self._text!r}")
        kind, text = self._tokens[self._at]
        self._at += 1
        return self._literal(kind, text)

    def _literal(self, kind: str, text: str) -> Expression:
        if kind == "str":
            value = re.sub(r"\\(.)", r"\1", text[1:-1])
            return lambda scope: value
        if kind == "int":
            number = _whole(int(text)) if len(text) <= len(str(_MAX_INT)) else _whole(_MAX_INT + 1)
            return lambda scope: number
        if text in ("true", "false", "null"):
            constant = {"true": True, "false": False, "null": None}[text]
            return lambda scope: constant
        if kind == "name" and self._take("("):
            return self._function(text)
        if kind == "name":
            return lambda scope: _field(scope, text)
        raise CelError(f"unexpected {text!r} in {self._text!r}")

    def _function(self, name: str) -> Expression:
        inner = self.ternary()
        self._need(")")
        if name == "has":
            return lambda scope: _try(inner, scope) not in (_MISSING, None)
        if name == "size":
            return lambda scope: len(inner(scope))
        raise CelError(f"unknown function {name!r} in {self._text!r}")

    def _arguments(self, close: str) -> list[Expression]:
        items: list[Expression] = []
        while not self._take(close):
            items.append(self.ternary())
            if not self._peek(close):
                self._need(",")
        return items

    def _member(self, value: Expression) -> Expression:
        while op := self._take(".", ".?", "[", "[?"):
            if op in ("[", "[?"):
                key = self.ternary()
                self._need("]")
                value = _index(value, key, optional=op == "[?")
            else:
                value = self._select(value, self._name(), optional=op == ".?")
        return value

    def _select(self, value: Expression, name: str, *, optional: bool) -> Expression:
        if optional or not self._take("("):
            return _index(value, lambda scope: name, optional=optional)
        if name in _MACROS:
            return self._macro(value, _MACROS[name])
        arguments = self._arguments(")")
        if len(arguments) != _METHODS.get(name):
            raise CelError(f"unknown method {name!r} with {len(arguments)} arguments in {self._text!r}")
        return _method(value, name, arguments)

    def _macro(self, value: Expression, combine: Callable[[Iterator[tuple[Any, Any]]], Any]) -> Expression:
        variable, start = self._name(), self._at
        self._need(",")
        inner = self.ternary()
        self._need(")")
        steps = 1 + (self._at - start) // TOKENS_PER_STEP

        def pairs(scope: Scope) -> Iterator[tuple[Any, Any]]:
            for item in _elements(value(scope), scope):
                scope[EvaluationBudget].take(steps)
                yield item, inner({**scope, variable: item})

        return lambda scope: combine(pairs(scope))


_METHODS: Final[Mapping[str, int]] = {
    "orValue": 1,
    "hasValue": 0,
    "startsWith": 1,
    "endsWith": 1,
    "contains": 1,
    "size": 0,
    "sum": 0,
}
"""Methods, with their number of arguments."""
_MACROS: Final[Mapping[str, Callable[[Iterator[tuple[Any, Any]]], Any]]] = {
    "exists": lambda pairs: any(found for _, found in pairs),
    "all": lambda pairs: all(found for _, found in pairs),
    "exists_one": lambda pairs: sum(bool(found) for _, found in pairs) == 1,
    "filter": lambda pairs: [item for item, found in pairs if found],
    "map": lambda pairs: [found for _, found in pairs],
}


def _elements(value: Any, scope: Scope) -> Sequence[Any]:
    """Returns the elements of a list or the keys of a map. Raises CelError for other values."""
    if not isinstance(value, Mapping | list | tuple):
        raise CelError(f"no list or map: {_shown(value)}")
    scope[EvaluationBudget].take(len(value) // _COPIED_PER_STEP)
    return tuple(value)


def _both(combine: Callable[[Any, Any], Any], left: Expression, right: Expression, *, read: bool = False) -> Expression:
    """Combines both results; with `read`, that takes time by their size."""
    if not read:
        return lambda scope: combine(left(scope), right(scope))

    def combined(scope: Scope) -> Any:
        one, other, budget = left(scope), right(scope), scope[EvaluationBudget]
        budget.take_for(one)
        budget.take_for(other)
        return combine(one, other)

    return combined


def _shown(value: Any) -> str:
    """Returns the value for a message, in constant time: it may be large, or hold one list so often that no text holds it."""
    if isinstance(value, Mapping | list | tuple):
        return f"a {'map' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    return "an absent field" if value is _MISSING else repr(value[:80] if isinstance(value, str) else value)


def _equal(left: Any, right: Any) -> bool:
    """Compares like CEL, in which true and 1 are not equal."""
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Returns both values if they can be ordered. Raises CelError otherwise."""
    if type(left) is not type(right) or not isinstance(left, int | float | str) or isinstance(left, bool):
        raise CelError(f"cannot be ordered: {_shown(left)} and {_shown(right)}")
    return left, right


def _number(value: Any) -> int:
    if type(value) is not int:
        raise CelError(f"no whole number: {_shown(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CelError(f"no text: {_shown(value)}")
    return value


def _whole(number: int) -> int:
    if abs(number) > _MAX_INT:
        raise CelError("integer overflow")
    return number


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return [*left, *right]
    return _whole(_number(left) + _number(right))


def _subtract(left: Any, right: Any) -> int:
    return _whole(_number(left) - _number(right))


def _divide(left: Any, right: Any) -> int:
    """Divides and rounds toward zero, as in CEL."""
    quotient = abs(_number(left)) // abs(_number(right))
    return quotient if (left < 0) is (right < 0) else -quotient


_PRODUCTS: Final[Mapping[str, Callable[[Any, Any], int]]] = {
    "*": lambda left, right: _whole(_number(left) * _number(right)),
    "/": _divide,
    "%": lambda left, right: left - _divide(left, right) * right,
}


def _field(value: Any, name: Any) -> Any:
    """Returns the entry of a map, or the item of a list at a position from 0. Raises CelError."""
    listed = isinstance(value, list | tuple)
    if isinstance(value, Mapping) or (listed and type(name) is int and name >= 0):
        with contextlib.suppress(LookupError, TypeError):
            return value[name]
    raise CelError(f"no such key: {name[:80] if isinstance(name, str) else _shown(name)}")


def _try(expression: Expression, scope: Scope) -> Any:
    try:
        return expression(scope)
    except (CelError, *_FAULTS):
        return _MISSING


def _index(value: Expression, key: Expression, *, optional: bool) -> Expression:
    """Selects a field. After an optional step an absent field stays absent until orValue."""

    def read(scope: Scope) -> Any:
        base = value(scope)
        if base is _MISSING:
            return _MISSING
        if not optional:
            return _field(base, key(scope))
        return base.get(key(scope), _MISSING) if isinstance(base, Mapping) else _MISSING

    return read


def _method(value: Expression, name: str, arguments: list[Expression]) -> Expression:
    def call(scope: Scope) -> Any:
        base, given = value(scope), [argument(scope) for argument in arguments]
        match name:
            case "orValue":
                return given[0] if base is _MISSING else base
            case "hasValue":
                return base is not _MISSING
            case "startsWith" | "endsWith":
                scope[EvaluationBudget].take_for(given[0])
                found = _text(base).startswith if name == "startsWith" else _text(base).endswith
                return found(_text(given[0]))
            case "contains":
                scope[EvaluationBudget].take_for(base)
                return _text(given[0]) in _text(base)
            case "size":
                return len(base)
            case "sum":
                scope[EvaluationBudget].take_for(base)
                return _whole(sum(map(_number, _elements(base, scope))))
        raise AssertionError(name)

    return call


def _either(terms: list[Expression], scope: Scope, decisive: bool) -> bool:
    """Evaluates || or &&: a decisive side wins even if another side fails."""
    failed: Exception | None = None
    for term in terms:
        try:
            if bool(term(scope)) is decisive:
                return decisive
        except (CelError, *_FAULTS) as error:
            failed = error
    if failed is not None:
        raise failed
    return not decisive
