"""Which job a Workload belongs to: by group, kind and name; the version in its reference does not count."""

from __future__ import annotations

import pytest

from admission.controllers.caches import owner_key
from tests.builders import workload

KINDS = {("ships.example.com", "Ship"): "ships.example.com/ship", ("", "Pod"): "pod"}


@pytest.mark.parametrize(
    ("api_version", "kind", "key"),
    [
        pytest.param("ships.example.com/v1", "Ship", "ships.example.com/ship:ns/a", id="its version"),
        pytest.param("ships.example.com/v2", "Ship", "ships.example.com/ship:ns/a", id="another version"),
        pytest.param("boats.example.com/v1", "Ship", None, id="another group"),
        pytest.param("ships.example.com/v1", "Boat", None, id="another kind"),
        pytest.param("v1", "Pod", "pod:ns/a", id="core"),
    ],
)
def test_the_owner_is_known_in_every_version(api_version: str, kind: str, key: str | None) -> None:
    owner = {"apiVersion": api_version, "kind": kind, "name": "a", "uid": "u", "controller": True}
    assert owner_key(workload(metadata={"ownerReferences": [owner]}), KINDS) == key
