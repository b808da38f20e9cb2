"""Label and field selectors: the terms of the field, matched against labels and fields."""

from __future__ import annotations

import pytest

from api.embedded import selectors
from api.embedded.status import StatusError

LABELS = {"tier": "web", "n": "5", "kueue.x-k8s.io/queue-name": "main"}

TERMS = [
    ("", True),
    ("tier=web", True),
    ("tier==web", True),
    ("tier=db", False),
    ("tier!=db", True),
    ("none!=db", True),
    ("tier in (db, web)", True),
    ("tier notin (db,web)", False),
    ("none notin (db)", True),
    ("tier", True),
    ("none", False),
    ("!none", True),
    ("!tier", False),
    ("n>4", True),
    ("n<5", False),
    ("tier>1", False),
    ("none<1", False),
    ("kueue.x-k8s.io/queue-name=main,tier=web,!other", True),
    ("tier in (web),n in (1,2)", False),
    ("none=", False),
]


@pytest.mark.parametrize(("text", "expected"), TERMS, ids=[text or "everything" for text, _ in TERMS])
def test_label_terms(text: str, expected: bool) -> None:
    assert selectors.matches(selectors.parse_labels(text), LABELS) is expected


@pytest.mark.parametrize("text", ["a b", "=x", "-a=1", "in (a)"])
def test_what_is_no_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        selectors.parse_labels(text)
    assert refused.value.status == 400


OBJECTS = [
    pytest.param(None, True, id="none"),
    pytest.param({}, True, id="empty"),
    pytest.param({"matchLabels": {"tier": "web"}}, True, id="labels"),
    pytest.param({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}, False, id="not-in"),
    pytest.param({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True, id="absent"),
    pytest.param(
        {"matchLabels": {"n": "5"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["db"]}]},
        False,
        id="both",
    ),
]


@pytest.mark.parametrize(("selector", "expected"), OBJECTS)
def test_selector_objects(selector: dict[str, object] | None, expected: bool) -> None:
    assert selectors.matches(selectors.from_object(selector), LABELS) is expected


POD = {"metadata": {"name": "x"}, "spec": {"nodeName": "n1", "hostNetwork": True}, "status": {}}
FIELDS = [
    ("metadata.name=x", True),
    ("metadata.name==y", False),
    ("metadata.name!=y", True),
    ("status.phase=", True),
    ("spec.hostNetwork=true", True),
    ("spec.nodeName=n1,metadata.name=x", True),
    ("spec.nodeName!=n1", False),
]


@pytest.mark.parametrize(("text", "expected"), FIELDS, ids=[text for text, _ in FIELDS])
def test_field_terms(text: str, expected: bool) -> None:
    wanted = selectors.Filter(fields=selectors.parse_fields(text, lambda field: True))
    assert wanted.matches(POD) is expected


def test_fields_that_a_kind_does_not_offer() -> None:
    with pytest.raises(StatusError, match=r"field label not supported: spec\.x"):
        selectors.parse_fields("spec.x=1", lambda field: field == "metadata.name")
