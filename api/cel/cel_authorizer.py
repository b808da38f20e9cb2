"""CEL's `authorizer` of matchConditions: asks whether the user of a request may do something else.

Knows `authorizer.group(G).resource(R).subresource(S).namespace(N).name(X).check(VERB).allowed()`; what is not named is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

STEPS: Final = ("group", "resource", "subresource", "namespace", "name", "check")


@dataclass(frozen=True, slots=True)
class Authorizer:
    """A question as far as it is put. `may` answers it from the values of its steps."""

    may: Callable[[Mapping[str, str]], bool]
    asked: Mapping[str, str] = field(default_factory=dict)

    def step(self, name: str, value: str) -> Authorizer:
        """Returns the question with the value of a step."""
        return replace(self, asked={**self.asked, name: value})

    def allowed(self) -> bool:
        """Returns the answer."""
        return self.may(self.asked)
