"""Whether the members of a GangGroup fit, all of them at once: flavors for each, and one placement for all their pod sets.

Flavors and quota are found member by member, each seeing what those before it take; the pod sets of all members are then placed
as one request, so that they are one joint placement, and those that bear the same `podset-group-name` lie in one domain,
whatever member they are of. Where the nodes do not hold a pod set, its flavor is refused to its member and the search goes on.
Who finds no room goes first in the next try, as long as somebody else is left to blame: what a member takes may be what only
another one can use. Nothing is changed but in the trial of `charged`. Called by gangs.py and gang_preemption.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from admission.engine.cycle.nominate import Nomination
from admission.engine.decision import PlacementResult, Reason
from admission.engine.flavors.assign import FlavorAssignment, Mode, NoPreemption
from admission.engine.flavors.search import FlavorSearch, Scope
from admission.engine.ledger import Ledger
from admission.engine.model import Assignment, ClusterQueue, PlacementRequest, PodSet, Workload
from admission.engine.queue.line import order_of
from admission.engine.requests import placement_requests

LeavesQuota = Callable[[str, FlavorAssignment], bool]
Delays = Callable[[ClusterQueue, Nomination], str | None]
Fitting = tuple[Nomination, ...]

_RESERVED = "others were promised the quota that it needs"


@dataclass(frozen=True, slots=True)
class Refused:
    """The group does not start: of which member it is said why. `stranded`: members whose quota has to go back."""

    member: str
    reason: Reason
    message: str
    stranded: tuple[str, ...] = ()

    def told_to(self, key: str) -> str:
        """The message for that member."""
        return self.message if key == self.member else f"gang {self.member} of the group: {self.message}"


class GroupFit:
    """Looks at the ledger as it stands. `now` in epoch seconds."""

    def __init__(self, ledger: Ledger, now: float, leaves_quota: LeavesQuota, delays: Delays, *, fair: bool) -> None:
        self._ledger, self._now, self._fair = ledger, now, fair
        self._leaves_quota, self._delays = leaves_quota, delays
        self._nobody = NoPreemption(ledger.quota)

    def charged(self, members: Iterable[Workload], *, spare: bool = True) -> Fitting | Refused:
        """What each member gets, charged to the ledger; or why one gets nothing, and then nothing is changed.

        `spare`: beside what others were promised; else that is booked already.
        """
        line = sorted(members, key=order_of)
        blamed: set[str] = set()
        while True:
            found = self._attempt(line, spare)
            if not isinstance(found, Refused) or found.member in blamed:
                return found
            blamed.add(found.member)
            if found.member == line[0].key:
                return found  # it had the ledger to itself
            line.sort(key=lambda one: (one.key != found.member, order_of(one)))

    def _attempt(self, line: Sequence[Workload], spare: bool) -> Fitting | Refused:
        with self._ledger.trial() as trial:
            found = self._found(line, spare)
            if isinstance(found, Refused):
                return found
            for one in found:
                queue = self._ledger.quota.spec(one.workload.cluster_queue)
                if queue is not None and (why := self._delays(queue, one)) is not None:
                    return Refused(one.workload.key, Reason.PENDING_EVALUATION, why)
                self._ledger.charge(one.workload, one.admission())
            trial.keep()
        return found

    # ---- flavors of each, places of all

    def _found(self, line: Sequence[Workload], spare: bool) -> Fitting | Refused:
        refused: dict[str, dict[tuple[str, str], str]] = {member.key: {} for member in line}
        while True:
            flavors = self._flavors(line, refused, spare)
            if isinstance(flavors, Refused):
                return flavors
            asked = {
                _joint_name(member, request.pod_set): (member, request)
                for member, assignment in flavors
                for request in self._requests(member, assignment)
            }
            requests = [_named(name, request) for name, (_, request) in asked.items()]
            result = self._ledger.place(requests) if requests else PlacementResult({}, {})
            if result.fits:
                places = _by_member(asked, result.assignments)
                return tuple(Nomination(member, got, places.get(member.key, {})) for member, got in flavors)
            for name, failure in result.failures.items():
                member, request = asked[name]
                refused[member.key][request.pod_set.name, request.flavor] = failure.message

    def _requests(self, member: Workload, assignment: FlavorAssignment) -> list[PlacementRequest]:
        queue = self._ledger.quota.spec(member.cluster_queue)
        if queue is None:
            return []
        return placement_requests(member, queue, assignment, self._ledger.flavors, self._now)

    def _flavors(
        self, line: Sequence[Workload], refused: Mapping[str, Mapping[tuple[str, str], str]], spare: bool
    ) -> list[tuple[Workload, FlavorAssignment]] | Refused:
        found = []
        homes: dict[str, str] = {}
        with self._ledger.trial():
            for member in line:
                queue = self._ledger.quota.spec(member.cluster_queue)
                if queue is None:
                    text = f"ClusterQueue {member.cluster_queue} not found"
                    return Refused(member.key, Reason.MISCONFIGURED, text)
                scope = Scope({**refused[member.key], **_elsewhere(member, queue, homes)}, fair=self._fair)
                search = FlavorSearch(queue, self._ledger.flavors, self._ledger.quota, self._nobody, scope)
                got = search.assign(member)
                if got.mode < Mode.FIT:
                    return Refused(member.key, got.reason, got.message())
                if spare and not self._leaves_quota(queue.name, got):
                    return Refused(member.key, Reason.WAITING_FOR_QUOTA, _RESERVED)
                self._ledger.quota.add(queue.name, got.usage)
                _settle(member, got, homes)
                found.append((member, got))
        return found


def _group_names(member: Workload) -> dict[str, str]:
    """Its pod sets that are of a placement group, with the group's name."""
    asks = ((pod_set.name, pod_set.topology) for pod_set in member.pod_sets)
    return {name: ask.group for name, ask in asks if ask is not None and ask.group is not None}


def _elsewhere(member: Workload, queue: ClusterQueue, homes: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The flavors that its pod sets cannot use, since others of their placement group stand on another one."""
    return {
        (name, flavor): f"pod set group {group} of the gangs is on flavor {homes[group]}"
        for name, group in _group_names(member).items()
        for flavor in queue.flavors
        if homes.get(group, flavor) != flavor
    }


def _settle(member: Workload, got: FlavorAssignment, homes: dict[str, str]) -> None:
    """Where the placement groups of this member stand from now on."""
    groups = _group_names(member)
    for pod_set in got.pod_sets:
        if pod_set.name in groups and pod_set.topology is not None:
            homes.setdefault(groups[pod_set.name], pod_set.topology)


def _joint_name(member: Workload, pod_set: PodSet) -> str:
    """A name that no pod set of another member has."""
    return f"{member.key}:{pod_set.name}"


def _named(name: str, request: PlacementRequest) -> PlacementRequest:
    return replace(request, pod_set=replace(request.pod_set, name=name))


def _by_member(
    asked: Mapping[str, tuple[Workload, PlacementRequest]], found: Mapping[str, Assignment]
) -> dict[str, dict[str, Assignment]]:
    places: dict[str, dict[str, Assignment]] = {}
    for name, assignment in found.items():
        member, request = asked[name]
        places.setdefault(member.key, {})[request.pod_set.name] = assignment
    return places
