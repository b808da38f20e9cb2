"""Each kind gives its rules in one form."""

from __future__ import annotations

from inspect import signature

import pytest

from admission.webhook.endpoints import ENDPOINTS
from admission.webhook.kind_rules import KindRules

FORM = ("mutate", "validate", "restricted", "warn", "marked")


@pytest.mark.parametrize("kind", ENDPOINTS, ids=lambda kind: kind.resource.kind)
def test_a_kind_gives_its_rules_in_the_one_form(kind: KindRules) -> None:
    for method in FORM:
        assert [*signature(getattr(type(kind), method)).parameters] == [
            *signature(getattr(KindRules, method)).parameters
        ]


@pytest.mark.parametrize("kind", ENDPOINTS, ids=lambda kind: kind.resource.kind)
def test_a_kind_that_completes_its_objects_says_so(kind: KindRules) -> None:
    """Otherwise it has no path of the mutating webhook, and nobody calls what it does; or an empty one."""
    assert kind.completes == (type(kind).mutate is not KindRules.mutate)
    assert kind.completes or not (kind.updates or kind.at_once)


def test_every_kind_validates() -> None:
    assert [kind.resource.kind for kind in ENDPOINTS if type(kind).validate is KindRules.validate] == []
