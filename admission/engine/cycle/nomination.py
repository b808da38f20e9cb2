"""A nomination: flavors, domains, and the victims that must leave first. A value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from admission.engine.decision import Overtaking, Victim
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.model import Admission, Assignment, ClusterQueue, FlavorResource, PodSetAdmission, Workload
from admission.engine.spare_quota import with_spares


@dataclass(frozen=True, slots=True)
class Nomination:
    """The flavors and domains of a workload."""

    workload: Workload
    """Has the pod counts of this nomination."""
    assignment: FlavorAssignment
    places: Mapping[str, Assignment] = field(default_factory=dict)
    """The domains by pod set; if the mode is not Fit, those that the workload would take after evictions."""
    victims: tuple[Victim, ...] = ()
    """They must leave first."""
    fits_nowhere: bool = False
    """Whether not even nodes without any workload have room."""
    failed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why a flavor fails if no workload can be evicted, although its quota might fit, by (pod set, flavor)."""
    overtaking: Overtaking | None = None
    """Set if it starts before another workload only because it is expected to end in time."""

    @property
    def mode(self) -> Mode:
        """How well the flavors fit."""
        return self.assignment.mode

    @property
    def starts(self) -> bool:
        """Whether the workload can start, now or after its victims have left."""
        return self.mode is Mode.FIT or bool(self.victims)

    def charged(self, queue: ClusterQueue, now: float) -> Workload:
        """Returns the workload as it is charged when it is admitted now. With admission checks its start, and so its end, is
        unknown.
        """
        runs = self.workload.time_limit is not None and not queue.checks
        workload = replace(self.workload, admitted=now) if runs else self.workload
        return workload if self.overtaking is None else replace(workload, yields=self.overtaking.until)

    def quota(self) -> dict[FlavorResource, int]:
        """Returns the quota that the pods use, with what is held beside them at these places."""
        return with_spares(self.workload, self.assignment, self.places)

    def admission(self) -> Admission:
        """Returns the admission in the form that the ledger charges."""
        got = {pod_set.name: pod_set for pod_set in self.assignment.pod_sets}
        return Admission(
            self.workload.cluster_queue,
            tuple(
                PodSetAdmission(
                    name=pod_set.name,
                    flavors={resource: pick.flavor for resource, pick in got[pod_set.name].picks.items()},
                    usage={resource: got[pod_set.name].requests[resource] for resource in got[pod_set.name].picks},
                    count=pod_set.count,
                    assignment=self.places.get(pod_set.name),
                )
                for pod_set in self.workload.pod_sets
                if pod_set.name in got
            ),
        )
