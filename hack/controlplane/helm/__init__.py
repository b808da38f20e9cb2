"""helm, built from its own go.mod: only tests of the chart need it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hack.controlplane.build import Recipe

RECIPE: Final = Recipe("helm", Path(__file__).resolve().parent, ("helm",))
