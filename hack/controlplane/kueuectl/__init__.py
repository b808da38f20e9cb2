"""kueuectl, Kueue's command for its users, built from its own go.mod: only tests of what it shows need it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hack.controlplane.build import Recipe

RECIPE: Final = Recipe("kueuectl", Path(__file__).resolve().parent, ("kueuectl",))
