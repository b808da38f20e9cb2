"""Computes what a pod is charged in quota where that differs from its requests: resources excluded and transformed.

convert_workloads.py calls it, once per pod set; placement uses the original requests. It implements Kueue's
`resources.excludeResourcePrefixes` and `resources.transformations`: a transformation turns an amount of an input resource into
amounts of others, in addition (Retain) or instead (Replace), multiplied by the amount of a further resource if configured and
requested. Exclusion comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from admission.engine.model import CPU, Amounts


@dataclass(frozen=True, slots=True)
class Transformation:
    """Each unit of one resource (milli-units of cpu) counts as these amounts of others."""

    source: str
    """The resource that is transformed."""
    outputs: Mapping[str, Fraction]
    """What each unit counts as."""
    retain: bool = True
    """Whether it counts also as itself."""
    multiply_by: str | None = None
    """A resource whose amount, in whole units rounded up, multiplies the outputs; the factor is 1 if the pod does not request
    it."""

    def times(self, requests: Amounts) -> int:
        """Returns the factor by which the outputs of a unit are multiplied for a pod with these requests."""
        if self.multiply_by is None or self.multiply_by not in requests:
            return 1
        return ceil(Fraction(requests[self.multiply_by], 1000 if self.multiply_by == CPU else 1))


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """Prefixes of resources that quota ignores, and the transformations, at most one per resource.

    `reclaims` says whether pods that have ended return their quota while other pods of their workload run.
    """

    excluded: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    reclaims: bool = True

    def charged(self, requests: Amounts) -> Amounts | None:
        """Returns what a pod with these requests is charged, rounded up; None if that equals its requests."""
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
