"""What makes a gang a Sakkara group: exactly so many pods, placed as its ConfigMap says. A value, part of a gang's terms."""

from __future__ import annotations

from dataclasses import dataclass

from api.sakkara import SakkaraGroup


@dataclass(frozen=True, slots=True)
class ExactGang:
    """`config_map`: the name of the ConfigMap that says so, None where a PodGroup stands in for one.

    `by_priority`: the group's own priority holds, not that of its pods' classes.
    """

    group: SakkaraGroup
    config_map: str | None = None
    by_priority: bool = True
