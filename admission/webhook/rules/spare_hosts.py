"""Validates the rule of a ResourceFlavor for spare hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.formats import subdomain
from api.annotations.spare_hosts import level_above_host, parse_spare_hosts_of_flavor
from api.names import HOSTNAME_LABEL, SPARE_HOSTS, SPARE_HOSTS_QUEUE


def of_flavor(flavor: Mapping[str, Any], spec: Mapping[str, Any]) -> Errors:
    """Returns the errors of a ResourceFlavor's rule. The levels of a Topology are not known here."""
    annotations = (flavor.get("metadata") or {}).get("annotations") or {}
    at = FieldPath("metadata").child("annotations")
    queue, text = annotations.get(SPARE_HOSTS_QUEUE), annotations.get(SPARE_HOSTS)
    if text is None:
        rule = f"may only be set together with {SPARE_HOSTS}"
        return [forbidden(at.key(SPARE_HOSTS_QUEUE), rule)] if queue is not None else []
    errors = subdomain(at.key(SPARE_HOSTS_QUEUE), queue) if queue is not None else []
    try:
        level = parse_spare_hosts_of_flavor(text).level
    except ValueError as bad:
        return [*errors, invalid(at.key(SPARE_HOSTS), text, str(bad))]
    if spec.get("topologyName") is None and spec.get("topology") is None:
        return [*errors, forbidden(at.key(SPARE_HOSTS), "may only be set on a flavor with a topology")]
    levels = (spec.get("topology") or {}).get("levels")
    if levels and (levels[-1] != HOSTNAME_LABEL or level not in levels[:-1]):
        errors.append(invalid(at.key(SPARE_HOSTS), text, level_above_host(levels)))
    return errors
