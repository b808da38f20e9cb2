"""Branch and bound for the cheapest set of candidates that makes room in one domain. Terms and caller: cheapest.py.

`floor` is what none of them can cost less than. A greedy set is found quickly: of whom the floor must touch anyway, those
that give most first, and then without those that are not needed after all. Then all that could be better are gone through.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from admission.engine.model import FlavorResource
from admission.engine.preemption.attempt import Attempt, Pool, Share
from admission.engine.preemption.bounds import IMPOSSIBLE, Largest, Smallest, fewest
from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.cost import FREE, Cost, with_one
from admission.engine.topology.relief import Site

MOST = 64
"""Sets that must be larger are not gone through, and not looked at beyond twice as many: a proof is out of reach."""


class BranchAndBound:
    """One domain's search. `site` None: nothing is known of the room, or none is asked for.

    `inside`: who takes room in the domain (without a site: everybody), in Kueue's order. `givers`: keys of those who give
    quota instead; if there are such, one of them at least is to go. `top_by_quota`: no answer's top can be less.
    """

    def __init__(
        self,
        attempt: Attempt,
        site: Site | None,
        inside: Sequence[Candidate],
        top_by_quota: int,
        givers: Collection[str] = (),
    ) -> None:
        self._attempt, self._site, self._inside, self._givers = attempt, site, inside, givers
        self._chosen: list[Candidate] = []
        self.cut = False
        self.floor, self.possible = self._lowest(top_by_quota)

    # ---- the floor

    def _lowest(self, top_by_quota: int) -> tuple[Cost, bool]:
        """The floor, and whether there may be a set at all.

        Each figure holds for the sets that have the figures before it, no more: so costs are compared.
        """
        missing = 0 if self._site is None else self._site.missing
        quota = self._attempt.removal.quota_shortages()
        if not (missing or quota or self._givers):
            return FREE, True
        members = self._attempt.open if self._givers else self._inside
        least = max(top_by_quota, _top_by_room([(c.workload.priority, self._gain(c)) for c in self._inside], missing))
        for top in sorted({c.workload.priority for c in members}):
            if top >= least and (cost := self._cheapest_up_to(top, missing, quota)) is not None:
                return cost, True
        return FREE, False

    def _cheapest_up_to(self, top: int, missing: int, quota: Sequence[tuple[FlavorResource, int]]) -> Cost | None:
        """What a set of this top costs at least, None where there is none."""
        room = Pool.of(self._attempt, self._inside, top)
        pool = self._attempt.everybody(top) if self._givers else room
        shares = [(pool, _giving(fr), deficit) for fr, deficit in quota] + [(room, self._gain, missing)]
        needed = [1, *(each.important(share, deficit) for each, share, deficit in shares)]
        important = max(needed)
        if important > len(pool.at_top) or needed[-1] > len(room.at_top):
            return None
        need = max(each.with_important(share, deficit, important) for each, share, deficit in shares)
        if self._givers:
            need = max(need, fewest([self._gain(c) for c in self._inside], missing) + 1)
        return pool.cost(important, need)

    @cached_property
    def _members(self) -> list[Candidate]:
        if not self._givers:
            return list(self._inside)
        return self._attempt.named({**dict.fromkeys(c.key for c in self._inside), **dict.fromkeys(self._givers)})

    def _gain(self, candidate: Candidate) -> int:
        return 0 if self._site is None else self._site.gain.get(candidate.key, 0)

    # ---- both

    def search(self) -> None:
        """Leave the best in `best`; `cut` tells whether the budget ended the search."""
        best = self._attempt.best
        with self._attempt.removal.only(self._site):
            if not best.spent:
                self._attempt.look_at_all(self._members)
                if self._site is not None or not self._attempt.asks_for_room:
                    self._greedy()
            if best.beaten_by(self.floor):
                if best.spent or self.floor.gangs > MOST:
                    self.cut = True
                else:
                    self._run()

    # ---- a first set

    def _greedy(self) -> None:
        """One set that is minimal, if one is found."""
        best = self._attempt.best
        chosen = self._gathered()
        for candidate in sorted(chosen, key=self._dear, reverse=True):
            self._attempt.removal.put_back(candidate)
            if self._short():
                self._attempt.removal.take(candidate)
            else:
                chosen.remove(candidate)
        cost = self._cost(chosen)
        if not self._short() and best.beaten_by(cost) and self._lawful(chosen):
            self._attempt.accept(cost, chosen)
        for candidate in chosen:
            self._attempt.removal.put_back(candidate)

    def _gathered(self) -> list[Candidate]:
        chosen: list[Candidate] = []
        for candidate in self._by_worth():
            missing = self._attempt.removal.quota_shortages()
            room = self._site is not None and self._site.missing > 0
            if not (missing or room):
                break
            self._attempt.best.expanded += 1
            if (
                (room and self._gain(candidate)) or any(candidate.usage.get(fr, 0) for fr, _ in missing)
            ) and self._attempt.may_go(candidate):
                self._attempt.removal.take(candidate)
                chosen.append(candidate)
        return chosen

    def _by_worth(self) -> list[Candidate]:
        """Who must be touched anyway before who is more important; then those that give most room, then the cheap."""
        top = self.floor.top
        return sorted(self._members, key=lambda c: (c.workload.priority >= top, -self._gain(c), self._dear(c)))

    def _dear(self, candidate: Candidate) -> tuple[int, int, str]:
        return candidate.workload.priority, self._attempt.lost[candidate.key], candidate.key

    def _lawful(self, chosen: Sequence[Candidate]) -> bool:
        """Whether they may go in Kueue's order; they are out, and are again afterwards."""
        for candidate in chosen:
            self._attempt.removal.put_back(candidate)
        lawful = self._attempt.lawful(chosen)
        for candidate in chosen:
            self._attempt.removal.take(candidate)
        return lawful

    def _cost(self, chosen: Sequence[Candidate]) -> Cost:
        cost = FREE
        for candidate in chosen:
            cost = with_one(cost, candidate.workload.priority, self._attempt.lost[candidate.key])
        return cost

    # ---- all sets

    def _run(self) -> None:
        """Every set that could beat the best."""
        best, members = self._attempt.best, self._members
        if best.cost is not None:
            top = best.cost.top
            members = [c for c in members if c.workload.priority <= top]
        self._line = members
        best.expanded += len(members) // 4
        most = min(len(members), MOST, MOST if best.cost is None else best.cost.gangs + 1)
        self._priorities = [c.workload.priority for c in members]
        self._lost = [self._attempt.lost[c.key] for c in members]
        self._low_priorities, self._low_lost = Smallest(self._priorities, most), Smallest(self._lost, most)
        self._room = Largest([self._gain(c) for c in members], most)
        self._quota = {
            fr: Largest([c.usage.get(fr, 0) for c in members], most)
            for fr, _ in self._attempt.removal.quota_shortages()
        }
        self._go_on(0, FREE)

    def _go_on(self, start: int, cost: Cost) -> None:
        best = self._attempt.best
        if len(self._chosen) > 2 * MOST:
            self.cut = True
            return
        missing = [(self._quota[fr], deficit) for fr, deficit in self._attempt.removal.quota_shortages()]
        if self._site is not None and self._site.missing:
            missing.append((self._room, self._site.missing))
        if not missing and (not best.beaten_by(cost) or self._attempt.accept(cost, self._chosen)):
            return
        for index in range(start, len(self._line)):
            best.expanded += 1
            self.cut = self.cut or best.spent
            need = max((largest.needed(index, deficit) for largest, deficit in missing), default=1)
            if self.cut or need >= IMPOSSIBLE or not best.beaten_by(self._with_more(cost, index, need)):
                return
            child = with_one(cost, self._priorities[index], self._lost[index])
            after = max(
                (largest.needed(index + 1, deficit - largest.amounts[index]) for largest, deficit in missing), default=0
            )
            if after >= IMPOSSIBLE or not best.beaten_by(self._with_more(child, index + 1, after) if after else child):
                continue
            candidate = self._line[index]
            if self._attempt.may_go(candidate):
                self._attempt.removal.take(candidate)
                self._chosen.append(candidate)
                self._go_on(index + 1, child)
                self._chosen.pop()
                self._attempt.removal.put_back(candidate)

    def _with_more(self, cost: Cost, start: int, need: int) -> Cost:
        """What the cost becomes at least with so many more of those from `start` on."""
        top = max(cost.top, self.floor.top, self._low_priorities.least(start))
        important = cost.important if cost.top == top else 0
        if top == self.floor.top:
            important = max(important, self.floor.important)
        return Cost(
            top,
            max(important, 1),
            cost.gangs + need,
            cost.priorities + self._low_priorities.sum_of(start, need),
            cost.lost + self._low_lost.sum_of(start, need),
        )

    def _short(self) -> bool:
        return (self._site is not None and self._site.missing > 0) or not self._attempt.removal.quota_fits()


def _giving(fr: FlavorResource) -> Share:
    def share(candidate: Candidate) -> int:
        return candidate.usage.get(fr, 0)

    return share


def _top_by_room(shares: Sequence[tuple[int, int]], missing: int) -> int:
    """The lowest priority so that room could do if all up to it went; the shares are (priority, room)."""
    top = FREE.top
    for priority, gain in sorted(shares):
        if missing <= 0:
            break
        top = priority
        missing -= gain
    return top
