"""What a workload would get: flavors, domains, and the victims that have to leave first. A value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.decision import Victim
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.model import Admission, Assignment, PodSetAdmission, Workload


@dataclass(frozen=True, slots=True)
class Nomination:
    """What a workload would get. `workload` has the pod counts that this is for; `victims` have to leave first.

    `places`: domains by pod set; of a nomination that is no Fit, those that it would take once others have left.
    `homeless`: not even nodes without any workload hold it. `failed`: by pod set and flavor, why that is in vain if nobody can
    go, where quota might have done.
    """

    workload: Workload
    assignment: FlavorAssignment
    places: Mapping[str, Assignment] = field(default_factory=dict)
    victims: tuple[Victim, ...] = ()
    homeless: bool = False
    failed: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        """How well it fits."""
        return self.assignment.mode

    @property
    def starts(self) -> bool:
        """Whether it can start, at once or after its victims."""
        return self.mode is Mode.FIT or bool(self.victims)

    def admission(self) -> Admission:
        """The admission as the ledger takes it."""
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
