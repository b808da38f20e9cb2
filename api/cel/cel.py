"""A small evaluator of CEL, for webhooks' matchConditions and the expressions of JobKinds.

Supports `||`, `&&`, `!`, `==`, `!=`, `<` `<=` `>` `>=`, `in`, `+` `-` `*` `/` `%` on integers (`+` on strings and lists too),
parentheses, the ternary, field access (`a.b`, `a["b"]`, optional `a.?b` and `a[?"b"]` with `.orValue(x)` and `.hasValue()`),
`has(a.b)`, `size(x)`, `int(x)`, `startsWith`, `endsWith`, `contains`, `lowerAscii`, `split`, the macros `exists`, `all`,
`exists_one`, `filter` and `map`, `sum()` of a list of numbers, an `authorizer` (cel_authorizer.py), lists, strings, integers,
booleans and null. Anything else raises CelError, as do evaluation errors: a missing field, a wrong type, an integer beyond
64 bits, more work than cel_budget.py allows. The embedded
API server does not evaluate the CEL rules of CRDs.

This module parses; cel_operations.py has the operators, functions and methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from api.cel import cel_operations as operations
from api.cel.cel_budget import TOKENS_PER_STEP, CelError, CelWorkError, EvaluationBudget, OutOfSteps
from api.cel.cel_operations import Expression, Scope

__all__ = ["CelError", "Expression", "Scope", "compile_cel"]

_TOKEN = re.compile(
    r"""\s*(?:(?P<str>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<int>\d+)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<op>\|\||&&|==|!=|<=|>=|\.\?|\[\?|[-+*/%!<>().,?:\[\]]))"""
)
_LONGEST = 10_000


@lru_cache(maxsize=256)
def compile_cel(text: str) -> Expression:
    """Compiles an expression to a function of its variables. Both raise CelError and nothing else.

    The variables may include an EvaluationBudget, with its class as the key. Without one, the evaluation gets its own.
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
        except operations.FAULTS as error:
            raise CelError(f"{text[:80]!r}: {error}") from None

    return evaluate


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at, text = [], 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match or not match.lastgroup:
            raise CelError(f"cannot read {text[at : at + 20]!r} in {text!r}")
        tokens.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
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
        return terms[0] if len(terms) == 1 else lambda scope: operations.logical(terms, scope, True)

    def _and(self) -> Expression:
        terms = [self._relation()]
        while self._take("&&"):
            terms.append(self._relation())
        return terms[0] if len(terms) == 1 else lambda scope: operations.logical(terms, scope, False)

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
        if op := self._take(*operations.COMPARISONS):
            return operations.combined(operations.COMPARISONS[op], left, self._sum(), read=True)
        return left

    def _sum(self) -> Expression:
        left = self._product()
        while op := self._take("+", "-"):
            left = operations.combined(
                operations.add if op == "+" else operations.subtract, left, self._product(), read=True
            )
        return left

    def _product(self) -> Expression:
        left = self._unary()
        while op := self._take("*", "/", "%"):
            left = operations.combined(operations.PRODUCTS[op], left, self._unary())
        return left

    def _unary(self) -> Expression:
        if self._take("!"):
            inner = self._unary()
            return lambda scope: not inner(scope)
        if self._take("-"):
            number = self._unary()
            return lambda scope: operations.bounded(-operations.number(number(scope)))
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
            number = operations.integer(text)
            return lambda scope: number
        if text in ("true", "false", "null"):
            constant = {"true": True, "false": False, "null": None}[text]
            return lambda scope: constant
        if kind == "name" and self._take("("):
            return self._function(text)
        if kind == "name":
            return lambda scope: operations.field(scope, text)
        raise CelError(f"unexpected {text!r} in {self._text!r}")

    def _function(self, name: str) -> Expression:
        inner = self.ternary()
        self._need(")")
        if name == "has":
            return lambda scope: operations.value_or_missing(inner, scope) not in (operations.MISSING, None)
        if name == "size":
            return lambda scope: len(inner(scope))
        if name == "int":
            return lambda scope: operations.whole_number(inner(scope))
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
                value = operations.selected(value, key, optional=op == "[?")
            else:
                value = self._select(value, self._name(), optional=op == ".?")
        return value

    def _select(self, value: Expression, name: str, *, optional: bool) -> Expression:
        if optional or not self._take("("):
            return operations.selected(value, lambda scope: name, optional=optional)
        if name in operations.MACROS:
            return self._macro(value, operations.MACROS[name])
        arguments = self._arguments(")")
        if len(arguments) != operations.METHODS.get(name):
            raise CelError(f"unknown method {name!r} with {len(arguments)} arguments in {self._text!r}")
        return operations.called(value, name, arguments)

    def _macro(self, value: Expression, combine: Callable[[Iterator[tuple[Any, Any]]], Any]) -> Expression:
        variable, start = self._name(), self._at
        self._need(",")
        inner = self.ternary()
        self._need(")")
        steps = 1 + (self._at - start) // TOKENS_PER_STEP

        def pairs(scope: Scope) -> Iterator[tuple[Any, Any]]:
            for item in operations.elements(value(scope), scope):
                scope[EvaluationBudget].take(steps)
                yield item, inner({**scope, variable: item})

        return lambda scope: combine(pairs(scope))
