"""The topology assignment of a pod set: its domains, in the compact form that the status has."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from api.meta import KubeModel
from api.schema import (
    LevelKey,
    Schema,
    atomic,
    rule,
    rules,
    schema,
)

MAX_DOMAINS = 100_000
MAX_SLICES = 1000
Root = Annotated[str, schema(maxLength=63)]
PodCount = Annotated[int, schema(format="int32", minimum=1)]
# Both types below are unions: exactly one of the two members is set.
_ONE_OF: Schema = {"minProperties": 1, "maxProperties": 1}


class IndividualValues(KubeModel):
    """Differing values, each prefix + root + suffix."""

    prefix: Annotated[str | None, schema("Common prefix of the values.", minLength=1, maxLength=63)] = None
    suffix: Annotated[str | None, schema("Common suffix of the values.", minLength=1, maxLength=63)] = None
    roots: Annotated[
        tuple[Root, ...],
        schema(
            "The part of each value between prefix and suffix.",
            mandatory=True,
            **atomic(minItems=1, maxItems=MAX_DOMAINS),
        ),
    ] = ()


class LevelValues(KubeModel):
    """Values of one level over a slice's domains: one for all, or one each."""

    model_config = ConfigDict(json_schema_extra=_ONE_OF)

    universal: Annotated[str | None, schema("The value of every domain.", maxLength=63)] = None
    individual: IndividualValues | None = None


class PodCounts(KubeModel):
    """Pods per domain: one number for all, or one each."""

    model_config = ConfigDict(json_schema_extra=_ONE_OF)

    universal: Annotated[PodCount | None, schema("Pods of every domain.")] = None
    individual: Annotated[
        tuple[PodCount, ...] | None, schema("Pods by domain.", **atomic(minItems=1, maxItems=MAX_DOMAINS))
    ] = None


class AssignmentSlice(KubeModel):
    """A run of domains in compact form."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.valuesPerLevel.all(v, !has(v.individual) || size(v.individual.roots) == self.domainCount)",
                "roots must have one item per domain",
            ),
            rule(
                "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
                "individual pod counts must have one item per domain",
            ),
        )
    )

    domain_count: Annotated[int, schema("Domains in the run.", format="int32", minimum=1, maximum=MAX_DOMAINS)]
    values_per_level: Annotated[
        tuple[LevelValues, ...],
        schema("In the order of levels.", mandatory=True, **atomic(minItems=1, maxItems=16)),
    ] = ()
    pod_counts: Annotated[PodCounts, schema(mandatory=True)] = Field(default_factory=PodCounts)


class TopologyAssignment(KubeModel):
    """The domains of a pod set; `api.assignment` converts it to and from plain lists."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.slices) || self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            )
        )
    )

    levels: Annotated[
        tuple[LevelKey, ...], schema("Label keys, widest first.", mandatory=True, **atomic(minItems=1, maxItems=16))
    ] = ()
    slices: Annotated[tuple[AssignmentSlice, ...], schema("In order.", **atomic(maxItems=MAX_SLICES))] = ()
