"""Every test here runs on a real control plane and is marked e2e; fixtures `cluster` (a module's own) and `new_cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.controlplane.fixtures import cluster, control_plane_tools, new_cluster
from tests.dealing import is_below

__all__ = ["cluster", "control_plane_tools", "new_cluster"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_below(item.path, (HERE,)):
            item.add_marker(pytest.mark.e2e)
