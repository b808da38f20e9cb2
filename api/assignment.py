"""Encodes and decodes TopologyAssignment: plain lists of domains to the compact wire form and back.

The plain form is a list of `(values, count)`: a domain's values, one per level, and its number of pods. The wire form (v1beta2)
folds runs of domains into slices: per level one value for all, or the differing roots with a common prefix and suffix. Both
directions keep the order of domains. `admission.engine` chooses the domains and encodes them; the ungater and the ledger only
decode.

If hostnames share prefixes that end in '-' (node pools), each run of one pool becomes a slice, unless a single slice is shorter
as JSON.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import msgspec

from api.errors import InvalidObject
from api.names import HOSTNAME_LABEL
from api.topology_assignment import (
    MAX_DOMAINS,
    MAX_SLICES,
    AssignmentSlice,
    IndividualValues,
    LevelValues,
    PodCounts,
    TopologyAssignment,
)
from api.workloads import Admission

Domain = tuple[tuple[str, ...], int]
Wire = dict[str, Any]


def encode(levels: Sequence[str], domains: Sequence[Domain], *, by_hostname_prefix: bool = True) -> TopologyAssignment:
    """Returns the compact form. `by_hostname_prefix` is the gate TASAssignmentsEncodingByHostnamePrefix."""
    if not by_hostname_prefix:
        return _assignment(levels, [_Run.of(domains)] if domains else [])
    runs = _prefix_runs(levels, domains)
    if len(runs) > 1 and len(domains) <= MAX_DOMAINS:
        single = _Run.joined(runs)
        if single.size < sum(run.size + 1 for run in runs) - 1:
            runs = [single]
    return _assignment(levels, runs)


def decode(assignment: TopologyAssignment) -> list[Domain]:
    """Returns the domains in wire order. Raises InvalidObject if lengths within a slice, or levels and values, disagree."""
    out: list[Domain] = []
    for index, part in enumerate(assignment.slices):
        field, levels = f"topologyAssignment.slices[{index}]", len(assignment.levels)
        if not 0 < part.domain_count <= MAX_DOMAINS:  # checked before lists of this length are created
            raise InvalidObject(f"{field}.domainCount", part.domain_count, f"must be between 1 and {MAX_DOMAINS}")
        if len(part.values_per_level) != levels:
            values = len(part.values_per_level)
            raise InvalidObject(f"{field}.valuesPerLevel", values, f"must have one item per level, there are {levels}")
        out += _decode_slice(part, field)
    return out


def domain_count(assignment: TopologyAssignment) -> int:
    """Returns the number of domains without decoding them."""
    return sum(max(part.domain_count, 0) for part in assignment.slices)


def text_length(assignment: TopologyAssignment) -> int:
    """Returns an upper bound of the length of all domains' values as JSON, without decoding them."""
    return sum(max(part.domain_count, 0) * sum(map(_value_length, part.values_per_level)) for part in assignment.slices)


def _value_length(values: LevelValues) -> int:
    """Returns the length of one value with quotes and comma, counting each root as long as the longest."""
    own = values.individual or IndividualValues()
    around = len(own.prefix or "") + len(own.suffix or "")
    return 3 + max(len(values.universal or ""), around + max(map(len, own.roots), default=0))


def placement_text(admission: Admission | None, shown: int = 8) -> str:
    """Returns up to `shown` domains of each pod set as text, such as `main: 4 in b1/r1, 4 in b1/r2`; empty if none."""
    pod_sets = []
    for psa in admission.pod_set_assignments if admission else ():
        if psa.topology_assignment is not None:
            try:
                domains = decode(psa.topology_assignment)
            except InvalidObject:
                continue  # an unreadable assignment is left out
            texts = [f"{count} in {'/'.join(values)}" for values, count in domains[:shown]]
            more = [f"and {len(domains) - shown} more domains"] if len(domains) > shown else []
            pod_sets.append(f"{psa.name}: {', '.join(texts + more)}")
    return "; ".join(pod_sets)


# ---- encoding


@dataclass(frozen=True, slots=True)
class _Column:
    """One level's values over a run, with their common prefix and suffix."""

    values: Sequence[str]
    prefix: str
    suffix: str

    @classmethod
    def of(cls, values: Sequence[str]) -> _Column:
        """Compares all values."""
        first = values[0]
        if first == values[-1] and values.count(first) == len(values):
            return cls(values, first, first)
        return cls(values, _common_prefix(values), _common_suffix(values))

    @classmethod
    def joined(cls, parts: Sequence[_Column]) -> _Column:
        """Combines columns from their prefixes and suffixes, without comparing values again."""
        ends = [part.suffix for part in parts]
        values = list(chain.from_iterable(part.values for part in parts))
        return cls(values, _common_prefix([part.prefix for part in parts]), _common_suffix(ends))

    @property
    def _around(self) -> tuple[str, str] | None:
        """Prefix and suffix around the roots; None if all values are equal."""
        values, prefix, suffix = self.values, self.prefix, self.suffix
        if prefix == values[0] and values.count(prefix) == len(values):
            return None
        # The two may overlap in the shortest value; then the prefix is cut.
        return (prefix[: min(map(len, values)) - len(suffix)] if prefix and suffix else prefix), suffix

    def wire(self) -> Wire:
        """Returns the LevelValues as JSON."""
        around, values = self._around, self.values
        if around is None:
            return {"universal": values[0]}
        start, end = map(len, around)
        return _individual(around, [v[start : len(v) - end] for v in values] if end else [v[start:] for v in values])

    @property
    def size(self) -> int:
        """Length as JSON in bytes."""
        around = self._around
        if around is None:
            return _json_size({"universal": self.values[0]})
        cut = sum(map(_json_size, around)) - 4
        return _json_size(_individual(around, ())) + _json_size(self.values) - 2 - cut * len(self.values)


def _individual(around: tuple[str, str], roots: Sequence[str]) -> Wire:
    some = {name: text for name, text in zip(("prefix", "suffix"), around, strict=True) if text}
    return {"individual": {**some, "roots": roots}}


@dataclass(frozen=True, slots=True)
class _Run:
    """Adjacent domains that one slice represents."""

    columns: Sequence[_Column]
    counts: Sequence[int]

    @classmethod
    def of(cls, domains: Sequence[Domain]) -> _Run:
        """Returns the run of these domains, which must not be empty."""
        columns = [[values[level] for values, _ in domains] for level in range(len(domains[0][0]))]
        return cls(list(map(_Column.of, columns)), [count for _, count in domains])

    @classmethod
    def joined(cls, runs: Sequence[_Run]) -> _Run:
        """Returns the concatenation of the runs."""
        columns = zip(*(run.columns for run in runs), strict=True)
        return cls(list(map(_Column.joined, columns)), list(chain.from_iterable(run.counts for run in runs)))

    def wire(self) -> Wire:
        """Returns the AssignmentSlice as JSON."""
        return self._around([column.wire() for column in self.columns])

    @property
    def size(self) -> int:
        """Length as JSON in bytes."""
        commas = max(0, len(self.columns) - 1)
        return _json_size(self._around([])) + sum(column.size for column in self.columns) + commas

    def _around(self, values: Sequence[Wire]) -> Wire:
        counts = self.counts
        same = counts.count(counts[0]) == len(counts)
        return {
            "domainCount": len(counts),
            "valuesPerLevel": values,
            "podCounts": {"universal": counts[0]} if same else {"individual": counts},
        }


def _assignment(levels: Sequence[str], runs: Sequence[_Run]) -> TopologyAssignment:
    return TopologyAssignment.from_wire({"levels": tuple(levels), "slices": [run.wire() for run in runs]})


def _json_size(value: object) -> int:
    return len(msgspec.json.encode(value))


def _common_prefix(values: Sequence[str]) -> str:
    # The prefix that the smallest and the largest value share is shared by all values between.
    return _shared(min(values), max(values))


def _common_suffix(values: Sequence[str]) -> str:
    # The first and the last value mostly have no common suffix; then no other value is compared.
    suffix = _shared(values[0][::-1], values[-1][::-1])[::-1]
    while suffix:
        other = next((value for value in values if not value.endswith(suffix)), None)
        if other is None:
            break
        suffix = _shared(suffix[::-1], other[::-1])[::-1]
    return suffix


def _shared(first: str, second: str) -> str:
    length = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    return first[:length]


# ---- runs of one prefix


def _prefix_runs(levels: Sequence[str], domains: Sequence[Domain]) -> list[_Run]:
    """Returns runs of adjacent domains with the same hostname prefix, each of at most MAX_DOMAINS."""
    runs, start = [], 0
    for length in _run_lengths(levels, domains):
        end = start + length
        runs += [_Run.of(domains[at : min(at + MAX_DOMAINS, end)]) for at in range(start, end, MAX_DOMAINS)]
        start = end
    return runs


def _run_lengths(levels: Sequence[str], domains: Sequence[Domain]) -> list[int]:
    """Returns the lengths of runs with the same hostname prefix; a single run if splitting would not shorten the JSON."""
    if len(domains) < 2 or levels[-1] != HOSTNAME_LABEL:
        return [len(domains)] if domains else []
    # Hosts with the same longest prefix share all prefixes, so from here on such neighbors count as one stretch.
    stretches = list(_stretches([values[-1] for values, _ in domains]))
    prefixes = {longest: _dash_prefixes(longest) for longest, _ in stretches}
    uses: Counter[str] = Counter()
    for longest, length in stretches:
        for prefix in prefixes[longest]:
            uses[prefix] += length
    for depth in range(max(map(len, prefixes.values())), 0, -1):
        key_of = {longest: _longest_reused(some[:depth], uses) for longest, some in prefixes.items()}
        lengths = _merged([(key_of[longest], length) for longest, length in stretches])
        if sum(-(-length // MAX_DOMAINS) for length in lengths) <= MAX_SLICES:
            return lengths
    return [len(domains)]


def _stretches(hosts: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yields the longest prefix of each stretch of adjacent hosts, and the number of these hosts."""
    if hosts != sorted(hosts):
        yield from _one_by_one(hosts)
        return
    start = 0
    while start < len(hosts):
        # In ascending order, hosts with this prefix are adjacent; without a further dash no prefix is longer.
        longest = _longest(hosts[start])
        end = _end(hosts, start, longest)
        some = hosts[start:end]
        if "".join(some).count("-") == len(some) * longest.count("-"):
            yield longest, len(some)
        else:
            yield from _one_by_one(some)
        start = end


def _end(hosts: Sequence[str], start: int, prefix: str) -> int:
    """Returns the end of the hosts with the prefix, by binary search from `start`."""
    return bisect_left(hosts, True, start, key=lambda host: not host.startswith(prefix))


def _one_by_one(hosts: Sequence[str]) -> Iterator[tuple[str, int]]:
    for longest, group in groupby(map(_longest, hosts)):
        yield longest, len(list(group))


def _longest(host: str) -> str:
    """Returns the longest prefix that ends in '-', or an empty string."""
    return host[: host.rfind("-", 0, -1) + 1]


def _merged(stretches: Iterable[tuple[str, int]]) -> list[int]:
    """Returns the lengths after joining neighbors with the same key."""
    return [sum(length for _, length in group) for _, group in groupby(stretches, key=itemgetter(0))]


def _dash_prefixes(longest: str) -> list[str]:
    """Returns all prefixes of `longest` that end in '-', shortest first."""
    return [longest[: i + 1] for i, char in enumerate(longest) if char == "-"]


def _longest_reused(prefixes: Sequence[str], uses: Counter[str]) -> str:
    return next((prefix for prefix in reversed(prefixes) if uses[prefix] >= 2), "")


# ---- decoding


def _decode_slice(part: AssignmentSlice, field: str) -> Iterator[Domain]:
    size = part.domain_count
    columns = [_unfold(v, size, f"{field}.valuesPerLevel[{i}]") for i, v in enumerate(part.values_per_level)]
    counts = _unfold_counts(part.pod_counts, size, f"{field}.podCounts")
    values = zip(*columns, strict=True) if columns else ((),) * size
    return zip(values, counts, strict=True)


def _unfold(values: LevelValues, size: int, field: str) -> Sequence[str]:
    if values.universal is not None:
        return (values.universal,) * size
    own = values.individual or IndividualValues()
    _check_length(len(own.roots), size, f"{field}.individual.roots")
    prefix, suffix = own.prefix or "", own.suffix or ""
    return [f"{prefix}{root}{suffix}" for root in own.roots]


def _unfold_counts(counts: PodCounts, size: int, field: str) -> Sequence[int]:
    if counts.universal is not None:
        return (counts.universal,) * size
    own = counts.individual or ()
    _check_length(len(own), size, f"{field}.individual")
    return own


def _check_length(items: int, wanted: int, field: str) -> None:
    if items != wanted:
        raise InvalidObject(field, items, f"must have one item per domain, domainCount is {wanted}")
