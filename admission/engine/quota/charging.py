"""What a pod counts for in quota, where that is not what it requests of its node: resources excluded and transformed.

Kueue's `resources.excludeResourcePrefixes` and `resources.transformations`: a transformation turns so much of an input
resource into amounts of others, beside it (Retain) or in its place (Replace), by the amount of a further one where that is
asked for and the pod requests it. Excluding comes first. Placement never sees any of this. Called by convert.py, once for
each pod set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from admission.engine.model import CPU, Amounts


@dataclass(frozen=True, slots=True)
class Transformation:
    """Each unit of `source` (milli-units of cpu) counts for so much of each of the `outputs`. `retain`: and for itself.

    `multiply_by`: as often as there are whole units of this resource, begun ones included; once where it is not requested.
    """

    source: str
    outputs: Mapping[str, Fraction]
    retain: bool = True
    multiply_by: str | None = None

    def times(self, requests: Amounts) -> int:
        """How often the outputs of a unit count for a pod with these requests."""
        if self.multiply_by is None or self.multiply_by not in requests:
            return 1
        return ceil(Fraction(requests[self.multiply_by], 1000 if self.multiply_by == CPU else 1))


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """Prefixes of resources that quota does not look at, and the transformations, at most one for each resource."""

    excluded: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()

    def charged(self, requests: Amounts) -> Amounts | None:
        """What a pod with these requests counts for; None where that is just its requests. Parts of units round up."""
        if not self.excluded and not self.transformations:
            return None
        by_source = {each.source: each for each in self.transformations}
        total: dict[str, Fraction] = {}
        for resource, amount in requests.items():
            if resource.startswith(self.excluded):
                continue
            rule = by_source.get(resource)
            if rule is None or rule.retain:
                total[resource] = total.get(resource, Fraction(0)) + amount
            times = rule.times(requests) if rule else 1
            for name, each in rule.outputs.items() if rule else ():
                total[name] = total.get(name, Fraction(0)) + each * amount * times
        counted = {resource: ceil(amount) for resource, amount in total.items()}
        return None if counted == dict(requests) else counted


PLAIN = ResourceRules()
