"""Ranks flavors and decides when the search over them ends: the fungibility policy of a ClusterQueue (cycle.md 4.4).

Called by search.py for each flavor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.flavors.assign import Attempt, Mode, Pick
from admission.engine.model import FlavorResource, FungibilityPolicy
from admission.engine.reasons import Reason


@dataclass(slots=True)
class FlavorTrial:
    """The result of trying one flavor, one of its resources, or a whole resource group.

    It is never changed; it is not frozen because each head makes several, and a frozen dataclass takes twice as long to make.
    """

    mode: Mode
    level: int = 0
    picks: Mapping[str, Pick] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    reason: Reason | None = None
    attempts: tuple[Attempt, ...] = ()
    needed_quota: tuple[FlavorResource, int] | None = None

    @classmethod
    def refusal(cls, text: str, reason: Reason) -> FlavorTrial:
        """Returns the trial of a flavor that cannot be used: mode NO_FIT, with the text and reason."""
        return cls(Mode.NO_FIT, reasons=(text,), reason=reason)


def rank(tried: FlavorTrial, policy: FungibilityPolicy) -> tuple[bool, bool, int, int]:
    """Returns the sort key of a trial; the best trial has the largest key.

    Trials above NO_FIT rank first, then those above NO_CANDIDATES, then mode and borrowing level in the order of the policy.
    """
    first, second = int(tried.mode), -tried.level
    if policy.preference == "PreemptionOverBorrowing":
        first, second = second, first
    return (tried.mode > Mode.NO_FIT, tried.mode > Mode.NO_CANDIDATES, first, second)


def search_ends(tried: FlavorTrial, policy: FungibilityPolicy) -> bool:
    """Reports whether the search over flavors stops at this trial."""
    if tried.mode <= Mode.NO_CANDIDATES:
        return False
    if tried.mode < Mode.FIT and policy.when_can_preempt == "TryNextFlavor":
        return False
    return not (tried.level > 0 and policy.when_can_borrow == "TryNextFlavor")
