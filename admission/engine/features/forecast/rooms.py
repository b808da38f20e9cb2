"""The room on the hosts of one flavor during a replay: who leaves gives it back, who starts takes it.

For each shape of pods and each domain there is a sum: how many such pods fit on its hosts, whole slices only. A change of a
group of hosts changes the sums of its domains alone. A gang goes to the domain with the least room that holds it, ties by
name, and within that to the domains with the most room first, the last pods to the one with the least that suffices, as
the engine's profiles do (topology/compatible). A group of which only a part is taken is split; its occupants leave both parts.

Called by starts.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from admission.engine.features.forecast.hosts import FlavorHosts, GangPlace, HostState
from admission.engine.pauses import no_pause
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.usage import times

_DOMAINS: Final = 8
"""Domains that are tried for a gang: its pod sets may fit there one by one and not together."""

Share = tuple[int, int, int]
"""What a workload uses on each host of a group: group, number of the group's splits before, number of the amounts."""


Taken = Sequence[tuple[int, int]]
"""What a workload that ran at the start uses on each host of a group: group, number of the amounts."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Where a workload that started in the replay is."""

    flavor: str
    shares: tuple[Share, ...]


class Rooms:
    """The hosts of one flavor. `steps` counts the work: changed groups and domains that were searched."""

    def __init__(self, hosts: FlavorHosts, pause: Callable[[], None] = no_pause) -> None:
        self._hosts = hosts
        self.steps = 0
        self._depth = len(hosts.parents)
        self._index = {column: number for number, column in enumerate(hosts.columns)}
        self._numbers: dict[HostState, int] = {}
        self._states: list[HostState] = []
        self._slots: list[tuple[int, ...]] = []
        self._vectors = list(hosts.vectors)
        self._used: dict[tuple[int, int], tuple[int, int]] = {}
        self._negatives: dict[int, int] = {}
        self._changes: list[dict[int, tuple[int, tuple[tuple[int, int, int], ...]]]] = []
        self._first = [self._number(state) for state in hosts.states]
        self._kids = [_kids(parents, hosts.ranks[level]) for level, parents in enumerate(hosts.parents)]
        self._ranks = [np.array(ranks, dtype=np.int64) for ranks in hosts.ranks]
        self._whole = [shape.whole for shape in hosts.shapes]
        self._widest = [shape.widest for shape in hosts.shapes]
        self._paths = {widest: self._paths_to(widest) for widest in set(self._widest)}
        self._at_first = list[list[list[int]]]()
        for shape in range(len(hosts.shapes)):
            self._at_first.append(self._summed(shape))
            pause()
        self._groups_at_first: list[list[int]] = [[] for _ in hosts.ranks[-1]]
        for group, domain in enumerate(hosts.below):
            self._groups_at_first[domain].append(group)
        self.begin()

    def begin(self) -> None:
        """Goes back to the start of a replay."""
        self._state = list(self._first)
        self._below, self._size = list(self._hosts.below), list(self._hosts.sizes)
        self._at = list(self._hosts.firsts)
        self._splits: dict[int, list[int]] = {}
        self._groups: dict[int, list[int]] = {}
        self._sums = [[array("q", each) for each in levels] for levels in self._at_first]
        self._views: list[list[Ints]] = [[_view(each) for each in levels] for levels in self._sums]
        self._most = [[max(level, default=0) for level in levels] for levels in self._at_first]
        for shape, most in enumerate(self._most):
            most.append(max((self._slots[state][shape] for state in self._state), default=0))

    # ---- who leaves, who starts

    def taken_by(self, key: str) -> Taken:
        """Returns what a workload that ran at the start, or a held place, takes here."""
        return self._hosts.taken.get(key, ())

    def give(self, taken: Taken) -> None:
        """Gives back what such a workload took, which ends."""
        for group, amounts in taken:
            self._change(group, 0, amounts)

    def hold(self, key: str) -> None:
        """Takes again what a held place gave back."""
        for group, amounts in self._hosts.taken.get(key, ()):
            self._change(group, 0, self._negative(amounts))

    def has(self, key: str) -> bool:
        """Reports whether there is a place that is held under this key."""
        return key in self._hosts.taken

    def end(self, stay: Stay) -> None:
        """A workload that started in the replay ends."""
        for group, since, amounts in stay.shares:
            self._change(group, since, amounts)

    def is_full(self, place: GangPlace) -> bool:
        """Reports whether it is known, without a search, that the gang has no room."""
        if not place.levels:
            return False
        widest = place.levels[-1]
        return any(self._most[shape][widest] < count for shape, count in place.pods)

    def start(self, place: GangPlace) -> Stay | None:
        """Takes room for the gang; None if there is none."""
        for level in place.levels:
            for domain in self._domains(place, level):
                if (shares := self._taken(place, level, domain)) is not None:
                    return Stay(place.flavor, tuple(shares))
        return None

    def _domains(self, place: GangPlace, level: int) -> Iterator[int]:
        """Yields domains of the level (groups of hosts at the last) in which each pod set alone fits, the tightest first."""
        if level == self._depth:
            yield from self._single_hosts(place)
            return
        fits: Ints | None = None
        for shape, count in place.pods:
            if self._most[shape][level] < count:
                return
            here = np.flatnonzero(self._views[shape][level] >= count)
            self.steps += 1 + len(self._sums[shape][level]) // 256
            if not len(here):
                self._most[shape][level] = max(self._sums[shape][level], default=0)
                return
            fits = here if fits is None else np.intersect1d(fits, here, assume_unique=True)
        if fits is None:
            return
        order = np.lexsort((self._ranks[level][fits], self._views[place.pods[0][0]][level][fits]))
        yield from fits[order[:_DOMAINS]].tolist()

    def _single_hosts(self, place: GangPlace) -> Iterator[int]:
        shape, count = place.pods[0]
        if any(self._most[each][self._depth] < number for each, number in place.pods):
            return
        lowest = self._depth - 1
        sums = self._views[shape][lowest]
        fits = np.flatnonzero(sums >= count)
        order = np.lexsort((self._ranks[lowest][fits], sums[fits]))
        domains_with_room: list[tuple[int, int, int]] = []
        domains = 0
        for domain in fits[order].tolist():
            groups = self._groups_in(domain)
            self.steps += 1 + len(groups) // 8
            room = [(self._room(group, shape), self._at[group], group) for group in groups]
            here = [each for each in room if each[0] >= count]
            domains_with_room, domains = domains_with_room + here, domains + bool(here)
            if domains == _DOMAINS:
                break
        if not domains_with_room:
            self._most[shape][self._depth] = count - 1
        yield from (group for _, _, group in sorted(domains_with_room)[:_DOMAINS])

    def _taken(self, place: GangPlace, level: int, domain: int) -> list[Share] | None:
        shares: list[Share] = []
        for shape, count in place.pods:
            if level == self._depth:
                count = self._take_host(domain, shape, count, shares)
                domain = shares[-1][0] if shares else domain
            else:
                count = self._take(level, domain, shape, count, shares)
            if count:
                for group, since, amounts in shares:
                    self._change(group, since, amounts)
                return None
        return shares

    # ---- pods of one shape in one domain

    def _take(self, level: int, domain: int, shape: int, count: int, into: list[Share]) -> int:
        """Takes room for so many pods below the domain; returns how many had none."""
        if level == self._depth - 1:
            return self._take_hosts(domain, shape, count, into)
        kids = self._kids[level + 1][domain]
        self.steps += 1 + len(kids) // 256
        whole = self._whole[shape][level + 1]
        room = self._views[shape][level + 1][kids]
        room = room if whole == 1 else room // whole * whole
        while count:
            enough = np.flatnonzero(room >= count)
            at = int(enough[room[enough].argmin()]) if len(enough) else int(room.argmax())
            some = min(count, int(room[at]))
            if not some:
                return count
            left = self._take(level + 1, int(kids[at]), shape, some, into)
            count -= some - left
            room[at] = 0
        return 0

    def _take_hosts(self, domain: int, shape: int, count: int, into: list[Share]) -> int:
        groups = self._groups_in(domain)
        self.steps += 1 + len(groups) // 8
        room = sorted((-slots, self._at[group], group) for group in groups if (slots := self._room(group, shape)))
        for position, (negative, _, group) in enumerate(room):
            slots, of_group = -negative, self._size[group]
            hosts = min(of_group, count // slots)
            if hosts:
                self._take_part(group, hosts, shape, slots, into)
                count -= hosts * slots
            if 0 < count < slots and hosts < of_group:
                # The rest goes to the host with the least room that suffices, the first of them.
                last, most = group, -slots
                for other, _, behind in room[position + 1 :]:
                    if -other < count:
                        break
                    if other > most:
                        last, most = behind, other
                self._take_part(last, 1, shape, count, into)
                count = 0
            if not count:
                return 0
        return count

    def _take_host(self, group: int, shape: int, count: int, into: list[Share]) -> int:
        if self._room(group, shape) < count:
            return count
        self._take_part(group, 1, shape, count, into)
        return 0

    def _take_part(self, group: int, hosts: int, shape: int, each: int, into: list[Share]) -> None:
        """Takes room for `each` pods on so many hosts of the group, which become a group of their own if they are not all."""
        if hosts < self._size[group]:
            self._size[group] -= hosts
            part = len(self._size)
            self._size.append(hosts)
            self._at.append(self._at[group])
            self._at[group] += hosts
            self._state.append(self._state[group])
            self._below.append(self._below[group])
            self._splits.setdefault(group, []).append(part)
            self._groups_in(self._below[group]).append(part)
            group = part
        given, taken = self._use_of(shape, each)
        since = len(self._splits.get(group, ()))
        self._change(group, since, taken)
        into.append((group, since, given))

    def _use_of(self, shape: int, pods: int) -> tuple[int, int]:
        """Returns the numbers of the amounts of so many pods, and of their negatives."""
        use = self._used.get((shape, pods))
        if use is None:
            self._vectors.append(times(self._hosts.shapes[shape].request, pods))
            number = len(self._vectors) - 1
            use = self._used[shape, pods] = number, self._negative(number)
        return use

    def _negative(self, amounts: int) -> int:
        number = self._negatives.get(amounts)
        if number is None:
            number = self._negatives[amounts] = len(self._vectors)
            self._vectors.append(times(self._vectors[amounts], -1))
        return number

    def _groups_in(self, domain: int) -> list[int]:
        groups = self._groups.get(domain)
        if groups is None:
            groups = self._groups[domain] = list(self._groups_at_first[domain])
        return groups

    def _room(self, group: int, shape: int) -> int:
        return self._slots[self._state[group]][shape]

    # ---- sums

    def _change(self, group: int, since: int, amounts: int) -> None:
        """Adds the amounts to each host of the group, and of the parts that were split off from it since."""
        self.steps += 1
        before = self._state[group]
        state = self._changes[before].get(amounts)
        if state is None:
            state = self._changes[before][amounts] = self._changed(before, amounts)
        self._state[group], shapes = state
        if shapes:
            size, domain = self._size[group], self._below[group]
            for shape, more, slots in shapes:
                self._add(shape, domain, more * size, slots)
        splits = self._splits.get(group)
        if splits is not None:
            for part in splits[since:]:
                self._change(part, 0, amounts)

    def _add(self, shape: int, lowest: int, more: int, slots: int) -> None:
        """Adds to the room of a lowest domain and of those above; `slots` is the room of each host that changed."""
        sums, most, whole = self._sums[shape], self._most[shape], self._whole[shape]
        if slots > most[-1]:
            most[-1] = slots
        for level, domain in self._paths[self._widest[shape]][lowest]:
            here = sums[level]
            before = here[domain]
            now = here[domain] = before + more
            if now > most[level]:
                most[level] = now
            if (size := whole[level]) != 1:
                more = now // size * size - before // size * size
                if not more:
                    return

    def _changed(self, before: int, amounts: int) -> tuple[int, tuple[tuple[int, int, int], ...]]:
        """Returns the state after a change, and for each shape whose room changes: by how much, and what it is then."""
        free, kind = self._states[before]
        now = list(free)
        for column, amount in self._vectors[amounts]:
            if (at := self._index.get(column)) is not None:
                now[at] += amount
        after = self._number((tuple(now), kind))
        both = enumerate(zip(self._slots[before], self._slots[after], strict=True))
        return after, tuple([(shape, new - old, new) for shape, (old, new) in both if new != old])

    def _number(self, state: HostState) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._changes.append({})
            self._slots.append(tuple(self._counted(state)))
        return number

    def _counted(self, state: HostState) -> Iterator[int]:
        """Yields how many pods of each shape a host in this state holds."""
        free, kind = state
        for shape, may_use in zip(self._hosts.shapes, self._hosts.open[kind], strict=True):
            if not may_use:
                yield 0
                continue
            slots = min(
                (free[self._index[column]] // amount for column, amount in shape.request if amount > 0), default=0
            )
            whole = shape.whole[-1]
            yield max(0, slots) // whole * whole

    def _paths_to(self, widest: int) -> list[tuple[tuple[int, int], ...]]:
        """Returns for each lowest domain the levels up to this one, with the domains that it is in."""
        paths = []
        for domain in range(len(self._hosts.ranks[-1])):
            path = [(self._depth - 1, domain)]
            while (level := path[-1][0]) > widest:
                path.append((level - 1, self._hosts.parents[level][path[-1][1]]))
            paths.append(tuple(path))
        return paths

    def _summed(self, shape: int) -> list[list[int]]:
        """Returns how many pods of the shape fit into each domain, by level of the chain."""
        levels = [[0] * len(ranks) for ranks in self._hosts.ranks]
        for group, domain in enumerate(self._hosts.below):
            levels[-1][domain] += self._slots[self._first[group]][shape] * self._hosts.sizes[group]
        for level in range(self._depth - 1, self._widest[shape], -1):
            whole = self._whole[shape][level]
            for domain, amount in enumerate(levels[level]):
                levels[level - 1][self._hosts.parents[level][domain]] += amount // whole * whole
        return levels


def _view(numbers: array[int]) -> Ints:
    """Returns the same numbers in the same memory, for numpy."""
    return np.frombuffer(numbers, dtype=np.int64) if numbers else np.zeros(0, dtype=np.int64)


def _kids(parents: Sequence[int], ranks: Sequence[int]) -> dict[int, Ints]:
    """Returns the domains below each domain, in the order of their names."""
    by_domain: dict[int, list[int]] = {}
    for domain in sorted(range(len(parents)), key=ranks.__getitem__):
        by_domain.setdefault(parents[domain], []).append(domain)
    return {above: np.array(kids, dtype=np.int64) for above, kids in by_domain.items()}
