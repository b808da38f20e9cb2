"""The codec of TopologyAssignment: plain domains to the compact wire form and back.

The plain form is a list of `(values, count)`: a domain's values, one per level, and how many pods go there. The wire
form (v1beta2) folds runs of domains into slices: per level one value for all, or a common prefix and suffix around the
roots that differ. The order of domains is kept both ways. Which domains, is decided elsewhere (`admission.engine`);
the ungater and the ledger only decode.

Where hostnames share prefixes that end in '-' (node pools), runs of one pool become slices of their own, unless the
one slice of the plain folding is the shorter JSON. Source of the rules: the placement description, 5.13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from api.errors import InvalidObject
from api.names import HOSTNAME_LABEL
from api.workloads import (
    MAX_DOMAINS,
    MAX_SLICES,
    AssignmentSlice,
    IndividualValues,
    LevelValues,
    PodCounts,
    TopologyAssignment,
)

Domain = tuple[tuple[str, ...], int]


def encode(levels: Sequence[str], domains: Sequence[Domain], *, by_hostname_prefix: bool = True) -> TopologyAssignment:
    """The compact form. `by_hostname_prefix` is the gate TASAssignmentsEncodingByHostnamePrefix."""
    levels = tuple(levels)
    if not by_hostname_prefix:
        return _assignment(levels, [domains] if domains else [])
    runs = encode_prefix_runs(levels, domains)
    if len(runs.slices) <= 1 or len(domains) > MAX_DOMAINS:
        return runs
    single = _assignment(levels, [domains])
    return single if _json_size(single) < _json_size(runs) else runs


def encode_prefix_runs(levels: Sequence[str], domains: Sequence[Domain]) -> TopologyAssignment:
    """The form by hostname prefixes alone: one slice per run of neighbours with the same prefix."""
    keys = _run_keys(levels, domains)
    return _assignment(tuple(levels), _chunks(keys, domains))


def decode(assignment: TopologyAssignment) -> list[Domain]:
    """The domains in wire order. Raises InvalidObject where the lengths within a slice, or levels and values, disagree."""
    out: list[Domain] = []
    for index, part in enumerate(assignment.slices):
        field, levels = f"topologyAssignment.slices[{index}]", len(assignment.levels)
        if len(part.values_per_level) != levels:
            values = len(part.values_per_level)
            raise InvalidObject(f"{field}.valuesPerLevel", values, f"must have one item per level, there are {levels}")
        out += _decode_slice(part, field)
    return out


def domain_count(assignment: TopologyAssignment) -> int:
    """How many domains it names, without decoding them."""
    return sum(part.domain_count for part in assignment.slices)


# ---- encoding


def _assignment(levels: tuple[str, ...], runs: Iterable[Sequence[Domain]]) -> TopologyAssignment:
    return TopologyAssignment(levels=levels, slices=tuple(_compact(run) for run in runs))


def _compact(domains: Sequence[Domain]) -> AssignmentSlice:
    columns = [[values[level] for values, _ in domains] for level in range(len(domains[0][0]))]
    return AssignmentSlice(
        domain_count=len(domains),
        values_per_level=tuple(map(_fold, columns)),
        pod_counts=_fold_counts([count for _, count in domains]),
    )


def _fold(values: Sequence[str]) -> LevelValues:
    if values[0] == values[-1] and values.count(values[0]) == len(values):
        return LevelValues(universal=values[0])
    prefix, suffix = _common_prefix(values), _common_suffix(values)
    # Prefix and suffix may overlap in the shortest value; the prefix gives way.
    if prefix and suffix:
        prefix = prefix[: min(map(len, values)) - len(suffix)]
    start, end = len(prefix), len(suffix)
    roots = tuple([value[start : len(value) - end] for value in values] if end else [value[start:] for value in values])
    around = {"prefix": prefix} if prefix else {}
    if suffix:
        around["suffix"] = suffix
    return LevelValues(individual=IndividualValues.model_validate({**around, "roots": roots}))


def _common_prefix(values: Sequence[str]) -> str:
    # What the first and the last in order share, all between them share too.
    return _shared(min(values), max(values))


def _common_suffix(values: Sequence[str]) -> str:
    # The first and the last mostly differ at the end already, and then no other has to be looked at.
    suffix = _shared(values[0][::-1], values[-1][::-1])[::-1]
    while suffix:
        other = next((value for value in values if not value.endswith(suffix)), None)
        if other is None:
            break
        suffix = _shared(suffix[::-1], other[::-1])[::-1]
    return suffix


def _shared(one: str, other: str) -> str:
    length = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _fold_counts(counts: Sequence[int]) -> PodCounts:
    same = counts.count(counts[0]) == len(counts)
    return PodCounts(universal=counts[0]) if same else PodCounts(individual=tuple(counts))


def _json_size(assignment: TopologyAssignment) -> int:
    return len(msgspec.json.encode(assignment.to_wire()))


def _chunks(keys: Sequence[str], domains: Sequence[Domain]) -> Iterator[Sequence[Domain]]:
    for start, length in _runs(keys):
        for offset in range(start, start + length, MAX_DOMAINS):
            yield domains[offset : min(offset + MAX_DOMAINS, start + length)]


def _runs(keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(start, length) of each stretch of equal neighbours."""
    start = 0
    for _, group in groupby(keys):
        length = len(list(group))
        yield start, length
        start += length


def _run_keys(levels: Sequence[str], domains: Sequence[Domain]) -> list[str]:
    """One key per domain; a slice ends where the key changes. All empty: nothing to gain from splitting."""
    no_split = [""] * len(domains)
    if len(domains) < 2 or levels[-1] != HOSTNAME_LABEL:
        return no_split
    # Hosts with the same longest prefix have all prefixes in common, so what follows is worked out once for each of these.
    # They stand for it without its '-': no label begins with one, so the empty text is free to mean that there is none.
    own = [values[-1][:-1].rpartition("-")[0] for values, _ in domains]
    counts = Counter(own)
    prefixes = {longest: _dash_prefixes(longest) for longest in counts}
    uses: Counter[str] = Counter()
    for longest, count in counts.items():
        for prefix in prefixes[longest]:
            uses[prefix] += count
    for depth in range(max(map(len, prefixes.values())), 0, -1):
        key_of = {longest: _longest_reused(some[:depth], uses) for longest, some in prefixes.items()}
        keys = list(map(key_of.__getitem__, own))
        if _slice_count(keys) <= MAX_SLICES:
            return keys
    return no_split


def _dash_prefixes(longest: str) -> list[str]:
    """Every prefix that ends in '-', shortest first, of the longest one, which is given without it."""
    return [longest[:i] + "-" for i, char in enumerate(longest) if char == "-"] + ([longest + "-"] if longest else [])


def _longest_reused(prefixes: Sequence[str], uses: Counter[str]) -> str:
    return next((prefix for prefix in reversed(prefixes) if uses[prefix] >= 2), "")


def _slice_count(keys: Sequence[str]) -> int:
    return sum(-(-length // MAX_DOMAINS) for _, length in _runs(keys))


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


def _check_length(given: int, wanted: int, field: str) -> None:
    if given != wanted:
        raise InvalidObject(field, given, f"must have one item per domain, domainCount is {wanted}")
