"""The real control plane's fixtures, for test_real.py."""

from __future__ import annotations

from hack.controlplane.fixtures import cluster, control_plane_tools

__all__ = ["cluster", "control_plane_tools"]
