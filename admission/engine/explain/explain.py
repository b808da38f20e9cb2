"""Explains why a workload waits and what would admit it, on the ledger as it is.

controllers/report/explainer.py calls it for a Workload that has waited a while, and so does `stowage explain`. The ledger is
unchanged afterwards, and the same ledger gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import floor, inf

from admission.engine.cycle.admission_attempt import attempt, cannot_run, fewest
from admission.engine.cycle.solve import place
from admission.engine.decision import Admit, Decision, Preempt, Wait
from admission.engine.expected_start import rfc3339
from admission.engine.explain.capacity_changes import raised
from admission.engine.explain.certificates import proofs
from admission.engine.explain.changes import FewerPods, LetEvict, LetReclaim, LimitTime, LowerMinimum, Remedy
from admission.engine.explain.cycle_decision import DecisionInputs, blocking_reservations, decided
from admission.engine.explain.cycle_trials import CycleTrials
from admission.engine.explain.explanation import Behind, Explanation, FlavorView, PodSetView, QuotaView, Verdict
from admission.engine.explain.finishing import UnplacedGroup
from admission.engine.explain.flavor_capacity import FlavorCapacity
from admission.engine.explain.quotas import RelatedQueues, quota_views, requested_amounts
from admission.engine.explain.remedies import check_remedies, ranked, remedies
from admission.engine.explain.trials import BUDGET, TrialBudget, Trials
from admission.engine.explain.usage_order import charged_node_holds, less_used
from admission.engine.explain.wording import unanswered_text
from admission.engine.features.elastic.growth import one_pod_more, slice_released
from admission.engine.flavors.assign import FlavorAssignment, PodSetFlavors
from admission.engine.flavors.eligible import named_levels, unsuitable, wants_topology
from admission.engine.flavors.search import topology_implied
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, Flavor, PlacementRequest, PodSet, ResourceGroup, StopPolicy, Workload
from admission.engine.reasons import Reason
from admission.engine.requests import placement_requests
from admission.engine.topology.constraints import Group, groups_of
from admission.engine.topology.tree.match import untolerated


def explain(
    ledger: Ledger,
    workload: Workload,
    now: float,
    *,
    ahead: Sequence[str] = (),
    budget: int = BUDGET,
    inputs: DecisionInputs | None = None,
    checks: str = "",
    pause: Callable[[], None] | None = None,
) -> Explanation:
    """Returns the explanation at `now`, in epoch seconds; `ahead` holds the keys of workloads ahead of it in its queue.

    `budget` is the number of placements that may be tried for remedies, 0 for none. `inputs` has the claims of other workloads
    and the rules that bind the workload, None if there are none. `checks` names the admission checks that an admitted workload
    waits for, with their messages. `pause` is called between two placements; the ledger may change meanwhile, and each remedy
    holds on the ledger on which it was tried.
    """
    explanation = Explanation(workload.key, workload.cluster_queue, Verdict.BLOCKED, Reason.PENDING_EVALUATION, "")
    if (admission := ledger.admission(workload.key)) is not None:
        explanation = replace(explanation, proofs=proofs(ledger, workload, admission, now))
        if not checks:
            return replace(explanation, verdict=Verdict.ADMITTED)
        text, cause = f"has quota, and waits for admission check(s) {checks}", _cause(ledger, workload)
        return replace(
            explanation, verdict=Verdict.RESERVED, reason=Reason.UNSATISFIED_CHECKS, message=text, cause=cause
        )
    if workload.blocked is not None:
        explanation = replace(explanation, reason=Reason(workload.blocked[0]), message=workload.blocked[1])
        return (
            _inactive(explanation, ledger, workload, now, inputs or DecisionInputs(), TrialBudget(budget, pause))
            if explanation.reason in (Reason.MISCONFIGURED, Reason.SUSPENDED)
            else explanation
        )
    if workload.not_before > now:
        return replace(explanation, message=_backoff(workload.not_before))
    inputs = inputs or DecisionInputs()
    texts = less_used(inputs.queues, workload), charged_node_holds(ledger, workload)
    explanation = replace(explanation, usage="; ".join(filter(None, texts)))
    return _WaitExplanation(ledger, workload, now, inputs, TrialBudget(budget, pause)).explained(explanation, ahead)


def _cause(ledger: Ledger, workload: Workload) -> str:
    """Describes why the queue admits nothing and which of its checks no controller answers."""
    queue = ledger.quota.spec(workload.cluster_queue)
    if queue is None or queue.stop is not StopPolicy.NONE:
        return ""
    return "; ".join([*filter(None, (queue.inactive,)), *map(unanswered_text, queue.unanswered)])


def _inactive(
    explanation: Explanation,
    ledger: Ledger,
    workload: Workload,
    now: float,
    inputs: DecisionInputs,
    budget: TrialBudget,
) -> Explanation:
    """Explains why the workload's queue is inactive and what would make it active."""
    queue = ledger.quota.spec(workload.cluster_queue)
    if queue is None or queue.inactive is None or queue.stop is not StopPolicy.NONE:
        return explanation
    given, related = budget.left, RelatedQueues(ledger, queue.name)
    trials = Trials(ledger, replace(workload, blocked=None), queue, now, budget)
    ahead = CycleTrials(trials, inputs, given)
    held, taken = ahead.without_refuted(check_remedies(trials, related), (), related)
    return replace(
        explanation,
        cause=_cause(ledger, workload),
        remedies=ranked(dict.fromkeys(held)),
        taken=tuple(taken),
        complete=not budget.spent and not ahead.budget.spent,
    )


def _backoff(until: float) -> str:
    if until == inf:
        return "it was evicted, and what it was evicted for is not over"
    return f"its backoff is not over: it is considered again at {rfc3339(until)}"


_NAMED = 5
"""The number of workloads that a sentence names."""


class _WaitExplanation:
    """Computes the explanation of a workload that may be considered."""

    def __init__(
        self, ledger: Ledger, workload: Workload, now: float, inputs: DecisionInputs, budget: TrialBudget
    ) -> None:
        self._ledger, self._workload, self._now, self._inputs = ledger, workload, now, inputs
        self._left, self._budget, self._tries = budget, budget.left, not budget.spent

    def explained(self, explanation: Explanation, ahead: Sequence[str]) -> Explanation:
        decision = decided(self._ledger, self._workload, self._now, self._inputs)
        if isinstance(decision, Admit):
            proved = proofs(self._ledger, self._workload, decision.admission, self._now)
            return replace(explanation, verdict=Verdict.FITS, ahead=tuple(ahead[:5]), proofs=proved)
        if isinstance(decision, Preempt):
            victims = tuple(sorted(victim.workload for victim in decision.victims))
            explanation = replace(
                explanation, reason=Reason.WAITING_FOR_PREEMPTED, message=decision.message, victims=victims
            )
        elif isinstance(decision, Wait):
            explanation = replace(explanation, reason=decision.reason, message=decision.message)
        if (
            self._ledger.admission(self._workload.replaces) is not None
            and explanation.reason is not Reason.MISCONFIGURED
        ):
            return self._growing(explanation)
        return self._waiting(explanation)

    def _growing(self, explanation: Explanation) -> Explanation:
        """Explains why a slice of an elastic job, whose pods run, does not get one more pod, and what would admit that pod."""
        old = self._workload.replaces
        with slice_released(self._ledger, self._workload) as held:
            assert held is not None  # noqa: S101  the caller has checked
            self._workload = one_pod_more(self._workload, held)
            waiting = self._waiting(explanation)
        pods = sum(pod_set.count for pod_set in held.pod_sets)
        remedies = tuple(
            r for r in waiting.remedies if not any(isinstance(c, FewerPods | LowerMinimum) for c in r.changes)
        )
        cause = f"{old} keeps its {pods} pods; what is said here is of one pod more"
        return replace(
            waiting, verdict=Verdict.WAITS, remedies=remedies, cause="; ".join(filter(None, (waiting.cause, cause)))
        )

    def _waiting(self, explanation: Explanation) -> Explanation:
        queue = self._ledger.quota.spec(self._workload.cluster_queue)
        if queue is None or explanation.reason in (Reason.MISCONFIGURED, Reason.SUSPENDED):
            return _inactive(explanation, self._ledger, self._workload, self._now, self._inputs, self._left)
        reserved = self._inputs.reservation(self._workload)
        if reserved is not None and reserved.start > self._now:
            explanation = replace(explanation, starts=reserved.start)
        trials = Trials(self._ledger, self._workload, queue, self._now, self._left)
        if attempt(self._ledger, self._workload, self._now).fits:
            explanation = self._claims(replace(explanation, verdict=Verdict.WAITS), trials)
        else:
            explanation = self._shortage(explanation, trials)
        return replace(explanation, complete=self._tries and not self._left.spent)

    def _claims(self, explanation: Explanation, trials: Trials) -> Explanation:
        """Explains a wait of a workload that fits the ledger: another workload's claim, or a rule, holds it back."""
        if explanation.reason is Reason.PENDING_EVALUATION:
            held = blocking_reservations(self._ledger, self._workload, self._now, self._inputs)
            explanation = replace(
                explanation, behind=tuple(Behind(head.key, reservation.start) for head, reservation in held)
            )
        if (
            not explanation.behind
            and explanation.reason is Reason.WAITING_FOR_QUOTA
            and (holding_heads := self._holding_heads())
        ):
            heads = ", ".join(head.key for head in holding_heads[:_NAMED])
            explanation = replace(
                explanation, cause=f"quota is kept for {heads}, the refused head of a StrictFIFO queue"
            )
            return self._beside_kept(explanation, trials, holding_heads) if self._tries else explanation
        if not explanation.behind or not self._tries:
            return explanation
        seconds = floor(min(one.start for one in explanation.behind) - self._now)
        limit = Remedy((LimitTime(seconds),))
        return (
            replace(explanation, remedies=(limit,))
            if seconds > 0 and self._admitted_after(trials, limit)
            else explanation
        )

    def _holding_heads(self) -> list[Workload]:
        """Returns refused heads of other queues for which quota is kept that the workload would use (cycle/kept_quota.py)."""
        wanted = attempt(self._ledger, self._workload, self._now).usage.keys()
        tree = self._ledger.quota.tree_of(self._workload.cluster_queue)
        heads = (
            head
            for head, kept in self._inputs.kept(self._workload)
            if self._ledger.quota.tree_of(head.cluster_queue) == tree and kept.admission.usage().keys() & wanted
        )
        return sorted(heads, key=lambda head: head.key)

    def _beside_kept(self, explanation: Explanation, trials: Trials, holding_heads: Sequence[Workload]) -> Explanation:
        """Adds remedies against kept quota: queues that may reclaim keep none, or the smallest increase of quota."""
        lending = Remedy(tuple(LetReclaim(head.cluster_queue, head.key) for head in holding_heads))
        remedies = [lending] if self._admitted_after(trials, lending) else []
        remedies += self._raised_beside_kept(trials)
        ahead = CycleTrials(trials, self._inputs, self._budget)
        held, taken = ahead.without_refuted(remedies, (), RelatedQueues(self._ledger, trials.queue.name))
        if ahead.budget.spent:
            self._left.left = 0
        return replace(explanation, remedies=ranked(dict.fromkeys(held)), taken=tuple(taken))

    def _raised_beside_kept(self, trials: Trials) -> list[Remedy]:
        """Returns the smallest increase of quota that admits the workload although quota is kept."""
        needed = attempt(self._ledger, self._workload, self._now).usage
        by = {fr: amount for fr, amount in needed.items() if amount > 0}
        if not by or not self._admitted_after(trials, Remedy(raised(trials, by))):
            return []
        for fr, most in sorted(by.items()):
            low, high = -1, most  # high admits, low does not
            while high - low > 1:
                middle = (low + high) // 2
                enough = self._admitted_after(trials, Remedy(raised(trials, {**by, fr: middle})))
                low, high = (low, middle) if enough else (middle, high)
            by[fr] = high
        changes = raised(trials, {fr: amount for fr, amount in by.items() if amount})
        return [Remedy(changes)] if changes and self._admitted_after(trials, Remedy(changes)) else []

    def _shortage(self, explanation: Explanation, trials: Trials) -> Explanation:
        self._left.rest(self._ledger)
        never = cannot_run(self._ledger, self._workload) is not None
        views = _FlavorViews(self._ledger, self._workload, trials.queue, self._now, self._left)
        explanation = replace(
            explanation, verdict=Verdict.CANNOT_RUN if never else Verdict.WAITS, flavors=tuple(views.flavors())
        )
        if not self._tries:
            return explanation
        unplaced_groups = self._unplaced_groups(views)
        remedied = list(remedies(trials, unplaced_groups, views.related, alone=never))
        if self._inputs.claimed(self._workload):
            remedied = [remedy for remedy in remedied if self._admitted_after(trials, remedy)]
        if not explanation.victims:
            remedied += self._evicting(trials)
        ahead = CycleTrials(trials, self._inputs, self._budget)
        held, taken = ahead.without_refuted(ranked(remedied), unplaced_groups, views.related)
        if ahead.budget.spent:
            self._left.left = 0
        return replace(explanation, remedies=ranked(dict.fromkeys(held)), taken=tuple(taken))

    def _unplaced_groups(self, views: _FlavorViews) -> Sequence[UnplacedGroup]:
        """Returns the unplaced groups for the smallest number of pods with which the workload can start."""
        some = fewest(self._workload)
        return views.unplaced_groups if some == self._workload else views.of(some).unplaced_groups

    def _admitted_after(self, trials: Trials, remedy: Remedy) -> bool:
        """Reports whether the cycle would admit the workload after the remedy, including claims of other workloads."""
        return isinstance(self._decided_after(trials, remedy), Admit)

    def _decided_after(self, trials: Trials, remedy: Remedy) -> Decision | None:
        if self._left.spent:
            return None
        self._left.left -= 1
        self._left.rest(self._ledger)
        with trials.changed(*remedy.changes) as workload:
            return decided(self._ledger, workload, self._now, self._inputs)

    def _evicting(self, trials: Trials) -> Iterator[Remedy]:
        """Yields the smallest relaxation of the queue's preemption policy that lets the workload preempt others."""
        policy = trials.queue.preemption
        within, reclaim = policy.within_cluster_queue, policy.reclaim_within_cohort
        options = [("withinClusterQueue", "LowerPriority")] if within == "Never" else []
        if trials.queue.cohort is not None and reclaim != "Any":
            options += [("reclaimWithinCohort", value) for value in ("LowerPriority", "Any") if value != reclaim]
        for name, value in options:
            change = LetEvict(trials.queue.name, name, value, ())
            decision = self._decided_after(trials, Remedy((change,)))
            if isinstance(decision, Preempt):
                yield Remedy((replace(change, evicts=tuple(sorted(victim.workload for victim in decision.victims))),))
                return


class _FlavorViews:
    """The views of the queue's flavors; `unplaced_groups` collects groups that were not placed on the flavors tried so far."""

    def __init__(
        self, ledger: Ledger, workload: Workload, queue: ClusterQueue, now: float, budget: TrialBudget
    ) -> None:
        self._ledger, self._workload, self._queue, self._now = ledger, workload, queue, now
        self._budget = budget
        self._implied = topology_implied(queue, ledger.flavors)
        self.related = RelatedQueues(ledger, queue.name, budget)
        self.unplaced_groups: list[UnplacedGroup] = []

    def of(self, workload: Workload) -> _FlavorViews:
        """Returns the views for another workload, with its flavors computed."""
        other = _FlavorViews(self._ledger, workload, self._queue, self._now, self._budget)
        for _ in other.flavors():
            pass
        return other

    def flavors(self) -> Iterator[FlavorView]:
        """Yields a view of each flavor, in the order of the queue."""
        for group in self._queue.groups:
            requested = requested_amounts(self._queue, group, self._workload)
            for quotas in group.flavors:
                if any(requested.values()):
                    self._budget.rest(self._ledger)
                    view = self._flavor(group, quotas.flavor)
                    quota = {resource: amount for resource, amount in requested.items() if resource in quotas.quotas}
                    yield replace(view, quota=self._quota(quotas.flavor, quota))

    def _quota(self, flavor: str, requested: Mapping[str, int]) -> tuple[QuotaView, ...]:
        return quota_views(self._ledger, self._queue, self.related, flavor, requested)

    def _flavor(self, group: ResourceGroup, name: str) -> FlavorView:
        flavor = self._ledger.flavors.get(name)
        if flavor is None:
            return FlavorView(name, None, Reason.FLAVOR_NOT_FOUND, f"flavor {name} not found")
        view = FlavorView(name, flavor.topology)
        pod_sets = [p for p in self._workload.pod_sets if any(p.requests.get(r) for r in group.resources)]
        for pod_set in pod_sets:
            text = unsuitable(pod_set, flavor, group.resources, self._implied)
            if text is not None:
                code = _code(pod_set, flavor, text)
                return replace(view, code=code, message=_listing(text, pod_set, flavor))
        if flavor.levels is None:
            return view
        requests = self._requests(pod_sets, name)
        return replace(view, pod_sets=tuple(self._pod_sets(name, requests))) if requests else view

    def _requests(self, pod_sets: Sequence[PodSet], flavor: str) -> list[PlacementRequest]:
        """Returns the placement requests of the pod sets on this flavor, whatever its quota."""
        wanting = (p for p in pod_sets if p.count and wants_topology(p, self._implied))
        here = tuple(PodSetFlavors(p.name, {}, {}, topology=flavor) for p in wanting)
        flavors = FlavorAssignment(here, {})
        return placement_requests(self._workload, self._queue, flavors, self._ledger.flavors, self._now)

    def _pod_sets(self, flavor: str, requests: Sequence[PlacementRequest]) -> Iterator[PodSetView]:
        """Yields a view of each group that was not placed, with the groups that were placed."""
        result = place(self._ledger, requests)
        if result.fits:
            return
        with self._ledger.trial():
            assignments = result.assignments
            self._ledger.placement.assume(
                [(one, assignments[one.pod_set.name]) for one in requests if one.pod_set.name in assignments]
            )
            capacity = FlavorCapacity.of(self._ledger, flavor)
            for group in groups_of(requests):
                failure = result.failures.get(group.workers.pod_set.name)
                if failure is not None:
                    yield self._pod_set(capacity, group, failure.message)

    def _pod_set(self, capacity: FlavorCapacity | None, group: Group, message: str) -> PodSetView:
        names = tuple(member.pod_set.name for member in group.members)
        resolved = "" if capacity is None else capacity.resolve(group)
        if capacity is None or isinstance(resolved, str):
            return PodSetView(names, message)
        self.unplaced_groups.append(UnplacedGroup(capacity, group, resolved))
        return PodSetView(names, message, capacity.levels(group))


def _listing(text: str, pod_set: PodSet, flavor: Flavor) -> str:
    """Adds the flavor's levels to the text if the pod set names a level that does not exist."""
    unknown = [level for level in named_levels(pod_set) if level not in (flavor.levels or ())]
    if not unknown or flavor.levels is None:
        return text
    return f"{text}: {', '.join(unknown)} (its levels are {', '.join(flavor.levels)})"


def _code(pod_set: PodSet, flavor: Flavor, text: str) -> Reason:
    """Returns the reason for the test of `unsuitable` that failed: levels come first, then taints, then labels."""
    if text.startswith("Flavor "):
        return Reason.LEVEL_MISMATCH
    if untolerated(flavor.taints, (*pod_set.tolerations, *flavor.tolerations)) is not None:
        return Reason.UNTOLERATED_TAINT
    return Reason.NODE_AFFINITY_MISMATCH
