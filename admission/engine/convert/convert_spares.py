"""Converts the annotations of a ResourceFlavor to its rule for spare hosts. Pure."""

from __future__ import annotations

from admission.engine import model
from admission.engine.convert.conversion_errors import about
from api import topology
from api.annotations.spare_hosts import level_above_host, parse_spare_hosts_of_flavor
from api.errors import InvalidObject
from api.names import HOSTNAME_LABEL, SPARE_HOSTS, SPARE_HOSTS_QUEUE


def rule_of(stored: topology.ResourceFlavor, levels: tuple[str, ...] | None) -> model.SpareRule | None:
    """Returns the flavor's rule for spare hosts. Raises InvalidObject. `levels` is None if its Topology does not exist."""
    annotations = stored.metadata.annotations
    text = annotations.get(SPARE_HOSTS)
    if text is None:
        return None
    field = f"metadata.annotations[{SPARE_HOSTS}]"
    with about("ResourceFlavor", stored.key):
        try:
            rule = parse_spare_hosts_of_flavor(text)
        except ValueError as bad:
            raise InvalidObject(field, text, str(bad)) from None
        if levels and (levels[-1] != HOSTNAME_LABEL or rule.level not in levels[:-1]):
            raise InvalidObject(field, text, level_above_host(levels))
    return model.SpareRule(rule.hosts, rule.of, rule.level, annotations.get(SPARE_HOSTS_QUEUE, ""))


def readable_rule(stored: topology.ResourceFlavor, levels: tuple[str, ...] | None) -> model.SpareRule | None:
    """Returns the rule, or None if it cannot be read: the flavor is used without spare hosts, and an event says so."""
    try:
        return rule_of(stored, levels)
    except InvalidObject:
        return None
