"""Restricts a placement request to some hosts, or to all others. Called for failed nodes, lost pods and held hosts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from admission.engine.model import HOSTNAME_LABEL, NodeSelectorRequirement, NodeSelectorTerm, PlacementRequest


def on_hosts(request: PlacementRequest, operator: str, hosts: Collection[str]) -> PlacementRequest:
    """Returns the request restricted to these hosts (operator `In`) or to all other hosts (`NotIn`)."""
    named = NodeSelectorRequirement(key=HOSTNAME_LABEL, operator=operator, values=tuple(sorted(hosts)))
    term = NodeSelectorTerm(match_expressions=(named,))
    return replace(request, pod_set=replace(request.pod_set, volumes=(*request.pod_set.volumes, (term,))))
