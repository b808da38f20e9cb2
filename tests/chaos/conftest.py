"""The storms run on a real control plane of their own; the auditor's unit tests need none."""

from __future__ import annotations

from hack.controlplane.fixtures import cluster, control_plane_tools

__all__ = ["cluster", "control_plane_tools"]
