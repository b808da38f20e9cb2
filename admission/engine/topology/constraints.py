"""Resolves placement requests against a tree: level names become level numbers, and slices become layers (placement.md 5.4).

`build` returns a ResolvedRequest, or the message of the first rule that the request breaks. place_group.py finds its domains.
A group's workers determine the ResolvedRequest; its leader contributes only the requests and node requirements of one pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from admission.engine.model import (
    AUTO_LEVEL,
    PODS,
    Amounts,
    Flavor,
    LevelConstraint,
    PlacementOptions,
    PlacementRequest,
    PodFacts,
    PodSet,
    Profile,
    SliceLayer,
    TopologyRequest,
)
from admission.engine.topology.tree.match import Wants
from admission.engine.topology.tree.node_affinity import malformed
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values, resolve
from admission.engine.topology.usage import LIMIT

NOTHING = TopologyRequest(explicit=False)


@dataclass(frozen=True, slots=True)
class ResolvedLayer:
    """A slice layer: each slice of `size` pods stays in one domain of the level."""

    level: int
    size: int


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """One resolved placement request. The search begins at its level and continues at wider levels unless it is required or
    unconstrained.
    """

    topology: str
    count: int
    """The number of pods."""
    request: Amounts
    """What each pod uses."""
    wants: Wants
    level: int
    layers: tuple[ResolvedLayer, ...]
    """The slices, outermost first; without slices there is one layer of size 1 at the lowest level."""
    inner: Mapping[int, int]
    """The size of the layer that applies at each level below the outermost layer, down to the innermost."""
    required: bool
    unconstrained: bool
    least: bool
    """Whether domains with little free capacity are preferred."""
    leader: Amounts | None = None
    """What the leader pod uses; None without a leader."""
    leader_wants: Wants | None = None
    by_affinity: bool = False
    balanced: bool = False
    within: Values | None = None
    """Restricts the search to the domain of this path."""
    profile: Profile = Profile.COMPATIBLE
    shaped: Mapping[int, LevelConstraint] = field(default_factory=dict)
    """The placement constraints by level."""
    kept: Mapping[Values, int] = field(default_factory=dict)
    """Pods of the same pod set that stay in place, by the path of their lowest domain; used with constraints only, which hold
    for kept and new pods together."""
    most_per_host: int = 0

    @property
    def slice_level(self) -> int:
        """The level of the outermost slice layer."""
        return self.layers[0].level

    @property
    def slice_size(self) -> int:
        """The number of pods in one slice of the outermost layer."""
        return self.layers[0].size

    @property
    def need(self) -> int:
        """The number of slices to place. Pods beyond the last whole slice are not placed."""
        return self.count // self.slice_size

    @property
    def leaders(self) -> int:
        """Returns how many leader pods are placed beside the workers."""
        return 0 if self.leader is None else 1


@dataclass(frozen=True, slots=True)
class Group:
    """Pod sets that are placed together."""

    workers: PlacementRequest
    """The largest pod set."""
    leader: PlacementRequest | None = None
    """The other one, if there are two of which one has a single pod."""
    others: tuple[PlacementRequest, ...] = ()
    """The rest, with three or more pod sets, or two that both have several pods."""

    @classmethod
    def of(cls, members: list[PlacementRequest]) -> Group:
        """Returns the group of these pod sets. Of two pod sets, the one with fewer pods (the second, in a tie) is the leader.

        Two pod sets form workers and a leader only if one of them has a single pod.
        """
        if len(members) == 1:
            return cls(members[0])
        if len(members) > 2 or min(member.count for member in members) > 1:
            largest = max(members, key=lambda member: member.count)
            return cls(largest, others=tuple(member for member in members if member is not largest))
        first, second = members
        return cls(second, first) if second.count > first.count else cls(first, second)

    @property
    def members(self) -> tuple[PlacementRequest, ...]:
        """Returns all pod sets of the group."""
        return (self.workers, *(() if self.leader is None else (self.leader,)), *self.others)


def groups_of(requests: Iterable[PlacementRequest]) -> list[Group]:
    """Returns the groups of requests of one flavor, in order; equal group names form one group (placement.md 5.9)."""
    members: dict[str | int, list[PlacementRequest]] = {}
    for index, request in enumerate(requests):
        topology = request.pod_set.topology
        name = None if topology is None else topology.group
        members.setdefault(index if name is None else name, []).append(request)
    return list(map(Group.of, members.values()))


def pod_amounts(pod_set: PodSet) -> dict[str, int]:
    """Returns what one pod uses of a node: its requests (capped at LIMIT), its exclusive names, and one pod slot."""
    return {**{name: min(amount, LIMIT) for name, amount in pod_set.requests.items()}, **pod_set.exclusive, PODS: 1}


def wants_of(pod_set: PodSet, flavor: Flavor | None, facts: PodFacts | None = None) -> Wants:
    """Returns the pod set's requirements on nodes, including the flavor's tolerations. `facts` adds its pod terms."""
    return Wants(
        tolerations=(*pod_set.tolerations, *(() if flavor is None else flavor.tolerations)),
        selector=tuple(sorted(pod_set.node_selector.items())),
        affinity=pod_set.affinity,
        preferred=pod_set.preferred_affinity,
        volumes=pod_set.volumes,
        facts=facts,
        node_holds=pod_set.node_holds,
    )


def build(tree: Tree, flavor: Flavor, group: Group, options: PlacementOptions) -> ResolvedRequest | str:
    """Returns the group's resolved request, or the message that says why the request is invalid."""
    request = group.workers
    topology = request.pod_set.topology or NOTHING
    layers = topology.slices if options.multi_layer else topology.slices[:1]
    slice_only = bool(layers) and topology.required is None and topology.preferred is None
    key = _level_key(tree, topology, layers, request.implied)
    if layers and layers[0].size <= 0:
        return "slice topology requested, but slice size not provided"
    if key is None:
        return "topology level not specified"
    level = tree.level_of(key)
    if level is None:
        return f"no requested topology level: {key}"
    resolved = _layers(tree, level, key, layers)
    if isinstance(resolved, str):
        return resolved
    shaped = _shaped(tree, topology.constraints)
    if isinstance(shaped, str):
        return shaped
    within = None
    if topology.near is not None and topology.required is not None:
        within = topology.near[: level + 1]
        if within not in tree.levels[level].slots:
            return f"the gang stands in another topology than that of flavor {flavor.name}"
    wants = wants_of(request.pod_set, flavor, request.facts) if tree.by_node else Wants()
    leader_wants = _leader_wants(tree, group, flavor, options)
    problem = malformed((*(wants.affinity or ()), *(() if leader_wants is None else leader_wants.affinity or ())))
    if problem:
        return problem
    for member in (request, *(() if group.leader is None else (group.leader,))):
        if member.facts is not None and member.facts.problem:
            return f"pod set {member.pod_set.name}: {member.facts.problem}"
    for name in (*request.pod_set.exclusive, *(() if group.leader is None else group.leader.pod_set.exclusive)):
        tree.columns.of(name)  # no node offers it, so this request may be the first to name it
    unconstrained = topology.unconstrained is True or request.implied or slice_only
    profile = request.profile or options.profile
    return ResolvedRequest(
        topology=flavor.topology or flavor.name,
        count=request.count,
        request=pod_amounts(request.pod_set),
        wants=wants,
        level=level,
        layers=resolved,
        inner=_inner(resolved),
        required=topology.required is not None,
        unconstrained=unconstrained,
        least=profile is Profile.LEAST_FREE or (unconstrained and options.least_free_for_unconstrained),
        leader=None if group.leader is None else pod_amounts(group.leader.pod_set),
        leader_wants=leader_wants,
        by_affinity=options.respect_preferred_affinity,
        balanced=options.balanced and topology.required is None and not unconstrained,
        within=within,
        profile=profile,
        shaped=shaped,
        most_per_host=request.most_per_host,
    )


def _shaped(tree: Tree, constraints: tuple[LevelConstraint, ...]) -> dict[int, LevelConstraint] | str:
    """Returns the placement constraints by level, or why the level of a hard one is unknown or ambiguous, or a level is
    repeated. A soft constraint of another topology's level is ignored, as it would be if it could not be kept.
    """
    by_level: dict[int, LevelConstraint] = {}
    for constraint in constraints:
        level = resolve(constraint.level, tree.shape.levels)
        if isinstance(level, str) and not constraint.hard:
            continue
        if isinstance(level, str):
            return f"placement constraint: {level}"
        if level in by_level:
            return f"placement constraint: levels {by_level[level].level} and {constraint.level} are the same"
        by_level[level] = constraint
    return by_level


def _leader_wants(tree: Tree, group: Group, flavor: Flavor, options: PlacementOptions) -> Wants | None:
    if group.leader is None or not options.leader_constraints or not tree.by_node:
        return None
    return wants_of(group.leader.pod_set, flavor, group.leader.facts)


def _level_key(tree: Tree, topology: TopologyRequest, layers: tuple[SliceLayer, ...], implied: bool) -> str | None:
    levels = tree.shape.levels
    if topology.required is not None:
        return topology.required
    if topology.preferred is not None:
        return levels[-1] if topology.preferred == AUTO_LEVEL else topology.preferred
    if layers:
        return levels[0]
    return levels[-1] if topology.unconstrained or implied else None


def _layers(tree: Tree, level: int, key: str, layers: tuple[SliceLayer, ...]) -> tuple[ResolvedLayer, ...] | str:
    if not layers:
        return (ResolvedLayer(tree.depth - 1, 1),)
    outer = tree.level_of(layers[0].level)
    if outer is None:
        return f"no requested topology level for slices: {layers[0].level}"
    if level > outer:
        return f"podset slice topology {layers[0].level} is above the podset topology {key}"
    resolved = [ResolvedLayer(outer, layers[0].size)]
    for parent, layer in pairwise(layers):
        problem = _inner_problem(tree, resolved[-1], parent, layer)
        if problem:
            return problem
        resolved.append(ResolvedLayer(tree.shape.levels.index(layer.level), layer.size))
    return tuple(resolved)


def _inner_problem(tree: Tree, above: ResolvedLayer, parent: SliceLayer, layer: SliceLayer) -> str | None:
    level = tree.level_of(layer.level)
    if level is None:
        return f"no requested topology level for additional slice layer: {layer.level}"
    if level <= above.level:
        return f"additional slice layer topology {layer.level} must be at a lower level than {parent.level}"
    if layer.size <= 0 or above.size % layer.size:
        return f"additional slice layer size {layer.size} must evenly divide parent layer size {above.size}"
    return None


def _inner(layers: tuple[ResolvedLayer, ...]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for above, layer in pairwise(layers):
        sizes.update(dict.fromkeys(range(above.level + 1, layer.level + 1), layer.size))
    return sizes
