"""The objects of a world by kind, decoded and fed to the engine as the controller does with those of its watches.

Holds the stores that the controller's informers would fill, with the controller's feed on top. A bad object raises
InvalidObject with the object and field, and changes nothing. Called by cluster.py and builder.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Protocol, Self

from pydantic import ValidationError

from admission.controllers.jobs.context import JobContext
from admission.controllers.pods.gangs.gang import GangTerms, terms_of
from admission.controllers.pods.gangs.sakkara_terms import as_described
from admission.controllers.pods.pod_indexes import BY_POD, pod_keys
from admission.controllers.sakkara.groups import SakkaraGroups
from admission.controllers.watch.cluster_view import WATCHED, ClusterView
from admission.controllers.watch.feed import Feed
from admission.controllers.watch.sakkara_trees import Trees
from admission.controllers.watch.workload_conversion import Guess, no_guess
from admission.engine import model
from admission.engine.scheduler_state import SchedulerState
from admission.integrations.pods.pod import QueuedPod
from admission.world import sakkara_maps
from admission.world.rules import WorldRules
from api.errors import InvalidObject
from api.groups import PodGroup
from api.kube.decode import DECODE_ERRORS, undecodable
from api.kube.informers.store import Store
from api.kube.resources import (
    CONFIG_MAPS,
    POD_GROUPS,
    WORKLOADS,
    Resource,
)
from api.names import SAKKARA_GROUP, SAKKARA_TOPOLOGY
from api.sakkara import ConfigMap
from api.workloads import Workload


def _never_begun() -> float:
    """The time by which a world's feed decides which holds of nodes have begun: the world does (`World.keep_time`)."""
    return -inf


class Filled(Protocol):
    """What an object is added to: a store, or an informer of a process that asks what would happen."""

    def upsert(self, obj: Any, /) -> None:
        """Adds the object or replaces the one of its name."""


class Objects:
    """The objects of a cluster.

    `view` is the controllers' view of them. `pod_groups` maps keys of gangs to PodGroups. `group_maps` holds the ConfigMaps
    that describe Sakkara groups, `groups` the groups parsed from them. `rules` are the controller's settings; `guess` is an
    argument of the feed.
    """

    def __init__(self, state: SchedulerState, rules: WorldRules | None = None, guess: Guess = no_guess) -> None:
        rules = rules or WorldRules()
        stores: dict[Resource, Store[Any]] = {kind: Store(kind.plural) for kind in WATCHED}
        view = ClusterView(stores, rules.webhook.gates)
        stores[WORKLOADS].add_index(BY_POD, pod_keys)
        feed = Feed(
            view,
            state,
            _ignore_change,
            rules=rules.resources,
            by_eviction=rules.by_eviction,
            groups_outrank=rules.groups_outrank,
            wall=_never_begun,
            guess=guess,
        )
        self._fill(view, feed, stores, rules)

    @classmethod
    def of_process(cls, view: ClusterView, feed: Feed, stores: Mapping[Resource, Filled], rules: WorldRules) -> Self:
        """Returns the objects that a process holds already, with the feed that it has: a question may add to them."""
        made = cls.__new__(cls)
        made._fill(view, feed, stores, rules)
        return made

    def _fill(self, view: ClusterView, feed: Feed, stores: Mapping[Resource, Filled], rules: WorldRules) -> None:
        self.view, self.feed, self.rules = view, feed, rules
        self._stores: Mapping[Resource, Any] = stores
        self._decoders = {kind: watched.whole() for kind, watched in WATCHED.items()}
        self.pod_groups: dict[str, PodGroup] = {}
        self.group_maps = sakkara_maps.GroupMaps()
        self.groups = SakkaraGroups(self.group_maps)

    def add(self, kind: Resource, data: bytes) -> Any:
        """Decodes one object from JSON, adds it and returns it. Raises InvalidObject.

        A Workload that the engine rejects is kept; `validation_error` returns the reason.
        """
        made = self.decoded(kind, data)
        if (check := WATCHED[kind].check) is not None:
            check(made)
        if kind is CONFIG_MAPS:
            self._add_map(made)
        else:
            self._stores[kind].upsert(made)
        return made

    def _add_map(self, config_map: ConfigMap) -> None:
        sakkara_maps.check(config_map, self.rules.trees)
        for label, store in ((SAKKARA_TOPOLOGY, self._stores[CONFIG_MAPS]), (SAKKARA_GROUP, self.group_maps)):
            if label in config_map.metadata.labels:
                store.upsert(config_map)

    @property
    def config_maps(self) -> Iterable[str]:
        """The keys of the added ConfigMaps, those of trees first."""
        return (*self._stores[CONFIG_MAPS].objects, *self.group_maps.objects)

    def map_problem(self, key: str) -> str | None:
        """Returns why an added ConfigMap is invalid, or None."""
        return sakkara_maps.problem(key, self.view.features.of(Trees), self.groups)

    def terms(self, key: str, pods: Sequence[QueuedPod]) -> GangTerms:
        """Returns the terms of the gang of that key. Raises UnlikePods if its pods disagree."""
        pod_group = self.pod_groups.get(key)
        return as_described(terms_of(pods, pod_group), pods, self.groups.of(key), pod_group)

    def add_pod_group(self, kind: Resource, obj: Mapping[str, Any]) -> PodGroup:
        """Adds a PodGroup. Of two with one key, that of scheduling.x-k8s.io takes precedence. Raises InvalidObject."""
        try:
            made = PodGroup.from_wire(obj)
        except ValidationError as bad:
            first = bad.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise InvalidObject(field, first["input"], first["msg"], f"PodGroup {obj['metadata']['name']}") from None
        if kind is POD_GROUPS or made.key not in self.pod_groups:
            self.pod_groups[made.key] = made
        return made

    def decoded(self, kind: Resource, data: bytes) -> Any:
        """Decodes an object without adding it. Raises InvalidObject."""
        try:
            return self._decoders[kind](data)
        except DECODE_ERRORS as bad:
            raise undecodable(kind.kind, data, bad) from None

    def converted(self, workload: Workload) -> model.Workload:
        """Returns the engine's form of a Workload, with the reason that blocks it, if any. Raises InvalidObject."""
        return self.feed.conversion.converted(workload)

    def validation_error(self, workload: Workload) -> str | None:
        """Returns why the engine rejected an added Workload, or None."""
        return self.feed.validation_error(workload)

    def context(self) -> JobContext:
        """Returns the context that a job's adapter may read."""
        return JobContext(
            flavors=self.view.flavors.objects,
            workload_priority_classes=self.view.workload_priorities.objects,
            priority_classes=self.view.priorities.objects,
            workloads=self.view.workloads.objects,
            options=self.rules.jobs(self.view.namespaces.objects),
            claim_problem=self.view.features.claim_problem,
        )


def _ignore_change() -> None:
    """Does nothing: no loop waits for changes, because the caller runs the cycles."""
