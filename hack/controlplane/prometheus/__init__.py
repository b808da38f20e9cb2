"""promtool, Prometheus' checker of rules and metrics, built from its own go.mod: only tests of alerts and board need it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hack.controlplane.build import Recipe

# The discovery of targets at clouds takes most of the build, and no test needs it.
RECIPE: Final = Recipe("prometheus", Path(__file__).resolve().parent, ("promtool",), tags=("remove_all_sd",))
