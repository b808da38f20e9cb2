"""How flavors compare, and when the search over them ends: the fungibility policy of a ClusterQueue (cycle.md 4.4).

Called by search.py for each flavor it tries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.decision import Reason
from admission.engine.flavors.assign import Attempt, Mode, Pick
from admission.engine.model import FlavorResource, FungibilityPolicy


@dataclass(frozen=True, slots=True)
class FlavorTrial:
    """How one flavor (or one resource of it, or a whole resource group) does."""

    mode: Mode
    level: int = 0
    picks: Mapping[str, Pick] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    reason: Reason | None = None
    attempts: tuple[Attempt, ...] = ()
    needed_quota: tuple[FlavorResource, int] | None = None

    @classmethod
    def refusal(cls, text: str, reason: Reason) -> FlavorTrial:
        """Not this one, and why."""
        return cls(Mode.NO_FIT, reasons=(text,), reason=reason)


def rank(tried: FlavorTrial, policy: FungibilityPolicy) -> tuple[bool, bool, int, int]:
    """What the policy prefers ranks higher: any fit, then victims, then mode and borrowing in the chosen order."""
    first, second = int(tried.mode), -tried.level
    if policy.preference == "PreemptionOverBorrowing":
        first, second = second, first
    return (tried.mode > Mode.NO_FIT, tried.mode > Mode.NO_CANDIDATES, first, second)


def search_ends(tried: FlavorTrial, policy: FungibilityPolicy) -> bool:
    """Whether no further flavor is tried."""
    if tried.mode <= Mode.NO_CANDIDATES:
        return False
    if tried.mode < Mode.FIT and policy.when_can_preempt == "TryNextFlavor":
        return False
    return not (tried.level > 0 and policy.when_can_borrow == "TryNextFlavor")
