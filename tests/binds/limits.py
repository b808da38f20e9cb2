"""The documented limits: gangs that wait though the stock scheduler would bind them (docs/placement.md)."""

from __future__ import annotations

from admission.engine.reasons import Reason
from tests.binds.drawn import Gang
from tests.binds.outside import ATTACHED

EACH_WIDE = "a volume for each wide pod"


def limit_of(gang: Gang, message: str, *, apart: bool = True) -> str | None:
    """The limit that the reason of a gang's wait names, if its pods have the terms that the limit is about; else None.

    `apart`: the stock scheduler would bind them too if each had a claim of its own. A reason names the limit of volumes only
    where a host has no room for any pod, so it is not asked where they share a claim.
    """
    spread = next((term for term in gang.terms if term.startswith("spread ")), "")
    unevenly = "evenly by" in message
    if message.startswith(Reason.UNSUPPORTED_POD_TERMS):
        return "the Workload calls its terms unsupported"
    if unevenly and "minDomains" in spread and "on a host" in message:
        return "kube-scheduler counts a pinned pod with minDomains against 0, so a host gets at most maxSkew of them"
    if unevenly and spread.count("topologyKey") > 1:
        return "pods with several spread constraints are spread one after the other"
    if EACH_WIDE in gang.terms and "volumes:" in message:
        return "pods with a claim each go only where as many volumes are reached as the workload has claims"
    if ATTACHED in gang.terms and not apart:
        return "pods of a node that share a claim count as more volumes than they attach"
    return None
