"""A tiny evaluator for webhook matchConditions: the small part of CEL that such conditions are written in.

Understands `||`, `&&`, `!`, `==`, `!=`, `<` `<=` `>` `>=`, `in`, parentheses, the ternary, field access (`a.b`, `a["b"]`,
optional `a.?b` and `a[?"b"]` with `.orValue(x)` and `.hasValue()`), `has(a.b)`, `size(x)`, `startsWith`, `endsWith`,
`contains`, `exists(x, cond)`, `all(x, cond)`, lists, strings, whole numbers, booleans and null; the variables are
`object`, `oldObject` and `request`. Anything else is a `CelError`. It is no CEL library: CRD rules are not evaluated by
the embedded server at all. Called by admission.py.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Scope = Mapping[str, Any]
Expression = Callable[[Scope], Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<str>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<int>\d+)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<op>\|\||&&|==|!=|<=|>=|\.\?|\[\?|[-!<>().,?:\[\]]))"""
)
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING = object()
_LONGEST = 10_000


class CelError(Exception):
    """An expression that does not parse, or fails on this object (an absent field)."""


@lru_cache(maxsize=256)
def compile_cel(text: str) -> Expression:
    """The expression as a function of its variables."""
    if len(text) > _LONGEST:
        raise CelError(f"an expression has at most {_LONGEST} characters, not {len(text)}")
    parser = _Parser(_tokens(text), text)
    try:
        expression = parser.ternary()
    except RecursionError:
        raise CelError(f"nested too deep: {text[:80]!r}") from None
    parser.end()
    return expression


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
    """Recursive descent; each method returns a function of the scope."""

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
        left = self._unary()
        if self._take("in"):
            right = self._unary()
            return lambda scope: left(scope) in (right(scope) or ())
        if op := self._take(*_COMPARE):
            compare, right = _COMPARE[op], self._unary()
            return lambda scope: compare(left(scope), right(scope))
        return left

    def _unary(self) -> Expression:
        if self._take("!"):
            inner = self._unary()
            return lambda scope: not inner(scope)
        if self._take("-"):
            number = self._unary()
            return lambda scope: -number(scope)
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
            return lambda scope: int(text)
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
        if name in ("exists", "all"):
            return self._macro(value, name)
        return _method(value, name, self._arguments(")"))

    def _macro(self, value: Expression, name: str) -> Expression:
        variable = self._name()
        self._need(",")
        condition = self.ternary()
        self._need(")")
        quantify = any if name == "exists" else all
        return lambda scope: quantify(condition({**scope, variable: item}) for item in value(scope))


def _field(value: Any, name: Any) -> Any:
    try:
        return value[name]
    except (KeyError, IndexError, TypeError) as error:
        raise CelError(f"no such key: {name}") from error


def _try(expression: Expression, scope: Scope) -> Any:
    try:
        return expression(scope)
    except CelError:
        return _MISSING


def _index(value: Expression, key: Expression, *, optional: bool) -> Expression:
    """Below an optional step everything is optional: an absent field stays absent until orValue."""

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
            case "startsWith":
                return str(base).startswith(given[0])
            case "endsWith":
                return str(base).endswith(given[0])
            case "contains":
                return given[0] in str(base)
            case "size":
                return len(base)
        raise CelError(f"unknown method {name!r}")

    return call


def _either(terms: list[Expression], scope: Scope, decisive: bool) -> bool:
    """CEL's || and &&: a decisive side wins even over an error on the other side."""
    failed: CelError | None = None
    for term in terms:
        try:
            if bool(term(scope)) is decisive:
                return decisive
        except CelError as error:
            failed = error
    if failed is not None:
        raise failed
    return not decisive
