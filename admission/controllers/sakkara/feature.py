"""Sakkara's groups as a feature of the controller: ConfigMaps describe gangs, and get their results.

The trees of its other ConfigMaps are part of the view (controllers/watch/sakkara_trees.py).
"""

from __future__ import annotations

from collections.abc import Collection

from admission.controllers.sakkara.groups import SakkaraGroups
from admission.controllers.sakkara.output_controller import ResultController
from admission.controllers.sakkara.output_members import MemberPod, read_member
from admission.controllers.sakkara.output_paths import TreePaths
from admission.controllers.sakkara.output_times import SolverTimes
from admission.controllers.sakkara.reporter import Reporter
from admission.controllers.watch.feature import ControllerFeature, FeatureContext
from api.kube.informers.informer import Informer
from api.kube.resources import CONFIG_MAPS, PODS
from api.names import SAKKARA_GROUP, SAKKARA_GROUP_NAME
from api.sakkara import ConfigMap


class Sakkara(ControllerFeature):
    """Reads the ConfigMaps of groups, reports their errors and writes their results."""

    def __init__(self, context: FeatureContext) -> None:
        kube, views, settings = context.kube, context.views, context.settings
        maps = Informer(kube, CONFIG_MAPS, ConfigMap, label_selector=SAKKARA_GROUP)
        self.descriptions = SakkaraGroups(maps, settings.sakkara.highest_priority)
        self._times = SolverTimes(views.workloads.objects.get)
        members: Informer[MemberPod] = Informer(kube, PODS, read_member, label_selector=SAKKARA_GROUP_NAME)
        results = ResultController(
            context.writer,
            maps,
            self.descriptions,
            members,
            context.pods,
            views.workloads,
            TreePaths(context.ledger, views.nodes),
            self._times,
            at_once=settings.controller.writes,
        )
        self.informers = (maps, members)
        self.runs = (
            ("Sakkara's ConfigMaps", Reporter(views, self.descriptions, context.recorder).run),
            ("results of groups", results.run),
        )

    def decided(self, keys: Collection[str], seconds: float) -> None:
        """Counts the duration for the groups among these workloads."""
        self._times.spent(keys, seconds)
