"""Any history of a group: pods come, are let through, bound, fail and are replaced; the group is evicted and comes again;
its writer is killed between any two writes. No place is lost or given twice, and a rank stays with its pod and its place."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from admission.controllers.sakkara.output import result
from admission.controllers.sakkara.output_members import MemberPod
from admission.controllers.sakkara.output_ranks import read_placement
from admission.controllers.sakkara.output_record import ResultInput, ResultRecord
from api.names import SAKKARA_RANK, SAKKARA_RETRIES
from api.workloads import Workload
from tests.admission.controllers.sakkara.test_output import NODES, T0, admitted, condition, path_of, pod, sent, workload
from tests.budgets import quick

SIZE = 4
EVICTED = (
    condition("QuotaReserved", False, "PendingEvaluation", "for a better one"),
    condition("Evicted", True, "Preempted", "for a better one"),
    condition("Preempted", True, "InClusterQueue", "Preempted to accommodate x"),
)


class Histories(RuleBasedStateMachine):
    """`spots`: the nodes that the group was given, one for each pod; those of living pods are taken."""

    @initialize()
    def begin(self) -> None:
        self.pods: dict[str, MemberPod] = {}
        self.spots: list[str] = []
        self.workload: Workload | None = None
        self.evictions = self.attempts = self.uid = self.made = 0
        self.data: dict[str, str] = {"name": "g", "size": str(SIZE)}
        self.record: str | None = None
        self.labels: dict[str, dict[str, str]] = {}
        self.ranked: dict[str, int] = {}
        self.places: dict[int, str] = {}
        self.written: set[tuple[int, int]] = set()
        self.it_goes_on(2 * SIZE + 3, ["n0", "n1", "n1", "n2"])

    # ---- what happens to the group

    @rule(steps=st.integers(1, 6), nodes=st.lists(st.sampled_from(sorted(NODES)), min_size=SIZE, max_size=SIZE))
    def it_goes_on(self, steps: int, nodes: list[str]) -> None:
        """So many steps toward all pods being bound."""
        for _ in range(steps):
            self.step(nodes)

    def step(self, nodes: list[str]) -> None:
        """The next one: pods come, it is queued, it is admitted, pods are let through, pods are bound."""
        if len(self.living()) < SIZE:
            self.pods[f"p-{self.made}"] = pod(f"p-{self.made}")
            self.made += 1
        elif self.workload is None:
            self.uid, self.evictions = self.uid + 1, 0
            self.workload = workload(uid=f"w{self.uid}")
        elif not self.spots:
            self.spots, self.ranked, self.places = nodes, {}, {}
            self.workload = admitted(SIZE, self.evictions, f"w{self.uid}")
        elif self.gated():
            free = Counter(self.spots) - Counter(self.node(each) for each in self.living() if not each.gated)
            first = self.gated()[0]
            self.pods[first.name] = sent(first.name, min(free.elements()))
        else:
            for each in self.living():
                self.pods[each.name] = pod(each.name, self.node(each))

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data(), how=st.sampled_from(["fails", "is deleted", "is gone"]))
    def a_pod_leaves(self, data: st.DataObject, how: str) -> None:
        lost = data.draw(st.sampled_from(self.living()))
        if how == "is gone" or lost.gated:
            del self.pods[lost.name]
        elif how == "fails":
            self.pods[lost.name] = replace(lost, phase="Failed")
        else:
            self.pods[lost.name] = replace(lost, deleted=True)

    @rule()
    def the_dead_are_gone(self) -> None:
        self.pods = {each.name: each for each in self.living()}

    @precondition(lambda self: bool(self.spots) and self.made % 2 == 0)  # now and then
    @rule(workload_too=st.booleans())
    def it_is_evicted(self, workload_too: bool) -> None:
        self.evictions += 1
        self.attempts += 1
        self.spots, self.ranked, self.places = [], {}, {}
        self.pods = {name: each if each.gated else replace(each, deleted=True) for name, each in self.pods.items()}
        self.workload = None if workload_too else workload(*EVICTED, evictions=self.evictions, uid=f"w{self.uid}")

    # ---- who tells of it

    @rule(labelled=st.one_of(st.none(), st.integers(0, SIZE)))
    def the_writer_looks(self, labelled: int | None) -> None:
        """And is killed after so many labels."""
        found = self.tell()
        self.data = {"name": "g", "size": str(SIZE), **found.data}
        self.record = found.record.text()
        if "placement" in self.data:
            self.written.add((self.uid, self.evictions))
        for name, labels in list(found.labels.items())[:labelled]:
            self.labels[name] = dict(labels)

    @rule()
    def the_writer_is_killed_before_it_writes(self) -> None:
        self.tell()

    @rule()
    def everybody_looks_at_last(self) -> None:
        """Then all is told, and looking again tells nothing new."""
        self.the_writer_looks(None)
        again = self.tell()
        assert {"name": "g", "size": str(SIZE), **again.data} == self.data
        assert again.record.text() == self.record
        assert self.workload is None or self.is_up_to_date()
        if self.spots and len(self.living()) == SIZE and not self.gated():
            assert {p.name: self.node(p) for p in self.living()} == {p: path[-1] for p, path in self.told().items()}
            bound = all(p.node for p in self.living())
            assert self.data["status"] == ("Bound" if bound else "Assigned")
            assert {int(self.labels[p.name][SAKKARA_RANK]) for p in self.living()} == set(range(SIZE))

    # ---- what always holds

    @invariant()
    def every_pod_is_told_once_and_ranks_are_a_permutation(self) -> None:
        told = list(read_placement(self.data.get("placement")))
        assert len({name for name, _ in told}) == len(told) <= SIZE
        ranks = json.loads(self.data.get("rank", "[]"))
        assert sorted(rank for _, rank in ranks) in ([], list(range(SIZE)))
        assert not ranks or {name for name, _ in ranks} == {name for name, _ in told}

    @invariant()
    def a_rank_stays_with_its_pod_and_its_place(self) -> None:
        if not self.spots or not self.is_up_to_date():
            return
        told = self.told()
        for name, rank in json.loads(self.data.get("rank", "[]")):
            assert self.ranked.setdefault(name, rank) == rank
            assert self.places.setdefault(rank, told[name][-1]) == told[name][-1]

    @invariant()
    def no_place_is_given_twice(self) -> None:
        if self.spots and self.is_up_to_date():
            used = Counter(path[-1] for path in self.told().values())
            assert used <= Counter(self.spots)

    @invariant()
    def retries_are_counted_once(self) -> None:
        """Each attempt of which anything was written, and none more than once."""
        earlier = len(self.written - {(self.uid, self.evictions)})
        for each in self.living():
            if each.name in self.labels and self.spots and self.is_up_to_date():
                replaced = self.made - SIZE
                assert earlier <= int(self.labels[each.name][SAKKARA_RETRIES]) <= self.attempts + replaced

    # ---- helpers

    def tell(self) -> Any:
        seen = [replace(p, given=self.labels.get(p.name, {})) for p in self.pods.values()]
        return result(
            ResultInput(
                data=self.data,
                record=ResultRecord.read(self.record),
                workload=self.workload,
                pods=seen,
                path_of=path_of,
                now=T0 + 60,
                wanted=SIZE,
            )
        )

    def is_up_to_date(self) -> bool:
        """Whether what is written is of the attempt under way."""
        record = ResultRecord.read(self.record)
        return (record.workload, record.evictions) == (f"w{self.uid}", self.evictions)

    def told(self) -> dict[str, tuple[str, ...]]:
        return dict(read_placement(self.data.get("placement")))

    def living(self) -> list[MemberPod]:
        return [each for _, each in sorted(self.pods.items()) if each.lives]

    def gated(self) -> list[MemberPod]:
        return [each for each in self.living() if each.gated]

    @staticmethod
    def node(member: MemberPod) -> str:
        return path_of(member)[-1] if path_of(member) else ""


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=quick(30), stateful_step_count=40, deadline=None)
