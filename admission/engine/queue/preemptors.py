"""The preemptors of PendingQueues: each pending workload that evicted others, with the capacity that it evicted them for."""

from __future__ import annotations

from dataclasses import replace

from admission.engine.queue.pending import CapacityReservation


class Preemptors(dict[str, CapacityReservation]):
    """By key of the preemptor. An entry stays after its victims have left, until the preemptor starts or gives up."""

    def victim_left(self, key: str) -> list[str]:
        """Record that a workload has left. Returns the preemptors for which it was evicted."""
        evicted_for = []
        for owner, reservation in self.items():
            self[owner] = replace(reservation, victims=reservation.victims - {key})
            if key in reservation.evicted:
                evicted_for.append(owner)
        return evicted_for

    def victim_stays(self, key: str) -> None:
        """Record that the eviction of a workload was cancelled. A preemptor without any other victim is dropped."""
        for owner, reservation in [item for item in self.items() if key in item[1].evicted]:
            evicted = reservation.evicted - {key}
            if evicted:
                self[owner] = replace(reservation, evicted=evicted, victims=reservation.victims - {key})
            else:
                del self[owner]

    def renewed(self, key: str, reservation: CapacityReservation) -> CapacityReservation:
        """Returns the reservation with what the preemptor evicted before, and stores it if it evicted any workload."""
        leaving = reservation.victims & reservation.evicted
        if (before := self.get(key)) is not None:
            evicted, since = reservation.evicted | before.evicted, min(reservation.since, before.since)
            reservation, leaving = replace(reservation, evicted=evicted, since=since), leaving | before.victims
        if reservation.evicted:
            self[key] = replace(reservation, victims=leaving)
        return reservation
