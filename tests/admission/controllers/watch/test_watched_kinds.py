"""The kinds that are watched are declared once; informers, permissions and the parts of a world follow."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from admission.controllers.watch.cluster_view import FEATURES, WATCHED
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from admission.world.objects import Objects
from api.kube import resources
from api.kube.informers.store import Store
from api.text.manifests import read

PROJECT = Path(__file__).resolve().parents[4]
DECLARATION = PROJECT / "admission" / "controllers" / "watch" / "kinds.py"
NAMES = {key for key, value in vars(resources).items() if isinstance(value, resources.Resource) and value in WATCHED}
MANY = 14
"""So many of the kinds, named by one module, are a list of them."""


def named(file: Path) -> Counter[str]:
    """How often the module names each watched kind, its imports aside."""
    text = file.read_text()
    if sum(name in text for name in NAMES) < MANY:  # to parse it takes longer
        return Counter()
    return Counter(node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id in NAMES)


def test_the_list_of_watched_kinds_is_written_once() -> None:
    assert len(NAMES) == len(WATCHED) > 20
    files = [file for top in ("admission", "ungater", "hack") for file in (PROJECT / top).rglob("*.py")]
    lists = {file: counts for file in files if len(counts := named(file)) >= MANY}
    assert list(lists) == [DECLARATION]
    assert set(lists[DECLARATION].values()) == {1}


def test_a_world_has_a_part_for_each_watched_kind() -> None:
    view = Objects(SchedulerState(Ledger(), PendingQueues())).view
    parts = [view, *(view.features.of(feature) for feature in FEATURES)]
    kept = {name for part in parts for name, copy in vars(part).items() if isinstance(copy, Store)}
    assert {kind.name for kind in WATCHED.values()} <= kept


@pytest.mark.parametrize("role", ["rbac/controller.yaml", "dashboard/rbac.yaml"])
def test_who_keeps_copies_may_read_each_watched_kind(role: str) -> None:
    """But for the ConfigMaps of topologies, for which the dashboard has a Role in their namespace."""
    may = {
        (group, plural)
        for document in read(PROJECT / "config" / role)
        if document["kind"] == "ClusterRole"
        for rule in document["rules"]
        if {"get", "list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    needed = {(kind.resource.group, kind.resource.plural) for kind in WATCHED.values() if not kind.of_topologies}
    assert needed - may == set()
