"""Formats an explanation: one line for a status or an event, a sentence for each remedy and each limit.

The status, the event and the command line all use these texts, so that they always agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from admission.engine.expected_start import expected
from admission.engine.explain.changes import (
    AddNodes,
    AnswerCheck,
    Change,
    CoverResource,
    DropAffinity,
    DropCheck,
    DropSelector,
    FewerPods,
    Finish,
    LetEvict,
    LetReclaim,
    LimitTime,
    LowerMinimum,
    LowerRequest,
    NameLevel,
    RaiseQuota,
    RelaxTopology,
    Remedy,
    RequestResource,
    SoftenConstraint,
    Tolerate,
)
from admission.engine.explain.explanation import (
    CapacityUser,
    CapacityUserKind,
    Exclusion,
    Explanation,
    LevelView,
    PodSetView,
    QuotaView,
    Shortage,
    Taken,
    Verdict,
)
from admission.engine.ledger.holds import LABEL_OF_FLAVOR
from admission.engine.listed import listed
from admission.engine.model import UnansweredCheck
from admission.engine.model import to_text as amount_text
from admission.engine.reasons import Reason
from admission.engine.topology.tree.match import taint_text

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_NAMED = 3
"""The number of items of a kind that a line names; the rest is counted."""

NEVER = "cannot run as it is: it would not fit even if no other workload were admitted"


def headline(explanation: Explanation) -> str:
    """Returns one line: the verdict, the nearest miss, and the first remedies."""
    match explanation.verdict:
        case Verdict.ADMITTED:
            return "is admitted"
        case Verdict.FITS:
            first = f"; before it: {_several(explanation.ahead)}" if explanation.ahead else ""
            return "; ".join(filter(None, (f"fits and is admitted when its turn comes{first}", explanation.usage)))
        case Verdict.BLOCKED | Verdict.RESERVED:
            start = ": ".join(filter(None, (explanation.message, explanation.cause)))
        case Verdict.CANNOT_RUN:
            start = NEVER
        case _:
            start = ": ".join(filter(None, (nearest(explanation), explanation.cause)))
    if explanation.usage:
        start = f"{start}; {explanation.usage}"
    if explanation.starts is not None:
        start = f"{start}; {expected(explanation.starts)}"
    remedies = [remedy_text(remedy) for remedy in explanation.remedies[:_NAMED]]
    if not remedies and explanation.taken:
        return f"{start}; {taken_text(explanation.taken[0])}"
    return f"{start}; would be admitted if {', or if '.join(remedies)}" if remedies else start


def nearest(explanation: Explanation) -> str:
    """Describes where the workload came nearest to fitting, or whose eviction it waits for."""
    if explanation.victims:
        return f"waits for {_several(explanation.victims)} to leave, evicted for it"
    for flavor in explanation.flavors:
        for view in flavor.quota:
            if view.short:
                return f"flavor {flavor.flavor}: {quota_text(view)}"
        for pod_set in flavor.pod_sets:
            level = decisive(pod_set)
            if level is not None:
                return f"flavor {flavor.flavor}: {level_text(level, takers=False)}"
        if flavor.message:
            return flavor.message
    return explanation.message


def decisive(view: PodSetView) -> LevelView | None:
    """Returns the level that was requested, or None."""
    return next((level for level in view.levels if level.asked), None)


# ---- obstacles


def unanswered_text(check: UnansweredCheck) -> str:
    """Describes why no controller answers an admission check."""
    if not check.controller:
        return f"AdmissionCheck {check.name} does not exist"
    whose = f"AdmissionCheck {check.name} of controller {check.controller}"
    if not check.supported:
        return f"{whose} is never answered: Stowage does not support that controller"
    return f"{whose} is inactive{f' ({check.says})' if check.says else ', its controller has not said that it runs'}"


def level_text(view: LevelView, *, takers: bool = True) -> str:
    """Describes what the best domain offers and what limits it, optionally with the users of its capacity."""
    if not view.domain:
        return f"{view.level}: no domain at all"
    limits = "; ".join(limit_texts(view, takers=takers))
    text = f"{view.level} {'/'.join(view.domain)} holds {view.fits} of {view.wanted} {view.unit}"
    return f"{text} ({limits})" if limits and view.fits < view.wanted else text


def limit_texts(view: LevelView, *, takers: bool = True) -> Iterator[str]:
    """Yields a text for each limit of the best domain."""
    if not view.leader:
        yield "no node for the leader"
    for shortage in view.shortages:
        yield shortage_text(shortage if takers else replace(shortage, takers=()))
    if view.fragmented:
        yield "enough is free, but not together"
        for torn in view.torn:
            yield torn_text(torn if takers else replace(torn, takers=()))
    yield from map(exclusion_text, view.exclusions)


def shortage_text(shortage: Shortage) -> str:
    """Describes a resource that is short, and its largest users."""
    free, short = (quantity(shortage.resource, amount) for amount in (shortage.free, shortage.short))
    return _taken(f"{shortage.resource}: {free} free, {short} short", shortage)


def torn_text(torn: Shortage) -> str:
    """Describes a resource of which enough is free, but in pieces that hold too few whole pods."""
    free = quantity(torn.resource, torn.free)
    return _taken(f"{torn.resource}: {free} free, on single nodes for {_counted(torn.pods, 'pod')}", torn)


def _taken(text: str, shortage: Shortage) -> str:
    takers = ", ".join(taker_text(shortage.resource, taker) for taker in shortage.takers[:_NAMED])
    return f"{text}, taken by {takers}" if takers else text


def taker_text(resource: str, taker: CapacityUser) -> str:
    """Formats a user of capacity with its amount."""
    return f"{_USERS[taker.kind]}{taker.name} ({quantity(resource, taker.amount)})"


_USERS = {
    CapacityUserKind.WORKLOAD: "",
    CapacityUserKind.POD: "pod ",
    CapacityUserKind.HELD: f"the {LABEL_OF_FLAVOR} ",
}


_TESTS = {
    Reason.UNTOLERATED_TAINT: "taint",
    Reason.HELD_NODE: "reserved",
    Reason.NODE_SELECTOR_MISMATCH: "node selector",
    Reason.NODE_AFFINITY_MISMATCH: "node affinity",
    Reason.POD_ANTI_AFFINITY: "pod anti-affinity",
    Reason.POD_AFFINITY: "pod affinity",
}


def exclusion_text(exclusion: Exclusion) -> str:
    """Describes excluded nodes."""
    what = exclusion.what if exclusion.more else f"{_TESTS[exclusion.code]} {exclusion.what}".rstrip()
    return f"{_counted(exclusion.nodes, 'node')} excluded by {what} (room for {exclusion.pods})"


def quota_text(view: QuotaView) -> str:
    """Describes quota that is short, and the queues that use it."""
    asked, left, short = (quantity(view.resource, n) for n in (view.asked, max(0, view.available), view.short))
    text = f"{view.resource} quota: {asked} asked, {left} available"
    if not view.short:
        return text
    text += f", {short} short"
    if view.asked > view.most:
        return f"{text}, at most {quantity(view.resource, view.most)} ever"
    users = ", ".join(f"{user.cluster_queue} ({quantity(view.resource, user.amount)})" for user in view.users[:_NAMED])
    return f"{text}, used by {users}" if users else text


# ---- remedies


def remedy_text(remedy: Remedy) -> str:
    """Describes the remedy, to be read after "if"."""
    return " and ".join(map(change_text, remedy.changes))


def taken_text(taken: Taken) -> str:
    """Describes a remedy that does not suffice, and the workloads that would use it."""
    return f"if {remedy_text(taken.remedy)}, {_several(taken.by)} would still come first"


def change_text(change: Change) -> str:
    """Describes one change, to be read after "if"."""
    match change:
        case RelaxTopology(pod_sets, level, to, required):
            wish = f"required {to} instead of {level}" if required else f"preferred {level} instead of requiring it"
            return f"{_several(pod_sets)} {wish}"
        case NameLevel(pod_sets, level, to):
            return f"{_several(pod_sets)} named the level {to} instead of {level}, which does not exist"
        case SoftenConstraint(pod_set, level):
            return f"the constraint of {pod_set} on {level} were soft"
        case LowerRequest(pod_set, resource, asked, fits):
            return f"each pod of {pod_set} asked for {quantity(resource, fits)} {resource}, not {quantity(resource, asked)}"
        case RequestResource(queue, pod_sets, resource, least):
            amount = quantity(resource, least)
            return f"each pod of {_several(pod_sets)} requested {amount} or more {resource}, which ClusterQueue {queue} covers"
        case FewerPods(pod_set, asked, fits):
            return f"{pod_set} had {_counted(fits, 'pod')} instead of {asked}"
        case LowerMinimum(pod_set, asked, fits):
            return f"{pod_set} could start with {_counted(fits, 'pod')} instead of at least {asked} (minCount)"
        case Tolerate(taint):
            return f"its pods tolerated the taint {taint_text(taint)}"
        case DropSelector(key, value):
            return f"its node selector did not name {key}={value}"
        case DropAffinity(pod_set):
            return f"{pod_set} had no required node affinity"
        case Finish(workloads):
            return f"{_several(workloads)} finished"
        case LimitTime(seconds):
            return f"it ran for {seconds} s at most"
        case LetEvict(queue, field, value, evicts):
            return f"ClusterQueue {queue} let it evict {_several(evicts)} (preemption.{field}: {value})"
        case LetReclaim(queue, head):
            return f"ClusterQueue {queue} kept nothing for {head}, since it may reclaim (preemption.reclaimWithinCohort: Any)"
        case RaiseQuota(queue, flavor, resource, by, nominal):
            more, total = quantity(resource, by), quantity(resource, nominal)
            return f"ClusterQueue {queue} had {more} more {resource} of flavor {flavor} (nominalQuota {total})"
        case AnswerCheck(_, check, controller):
            return f"AdmissionCheck {check} {f'became active, by {controller}' if controller else 'existed and were active'}"
        case DropCheck(queue, check, controller):
            return f"ClusterQueue {queue} did not name AdmissionCheck {check} ({controller} is not supported)"
        case CoverResource(queue, resource, nominal, flavors, beside):
            group = f"the resource group of {', '.join(beside)}" if beside else "a new resource group"
            amount = f"nominalQuota {quantity(resource, nominal)} in {', '.join(flavors)}"
            return f"ClusterQueue {queue} covered {resource} in {group} ({amount})"
        case AddNodes(_, like, _, domain, _, number):
            return f"{_counted(number, 'more node')} like {like} came to {'/'.join(domain)}"


def quantity(resource: str, amount: int) -> str:
    """Formats the amount as the API does; bytes with a binary unit where that is exact."""
    power = 0
    while resource.startswith(_BYTES) and amount and amount % 1024 == 0 and power + 1 < len(_BINARY):
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY[power]}" if power else amount_text(resource, amount)


def _several(names: Sequence[str]) -> str:
    return listed(names, _NAMED)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
