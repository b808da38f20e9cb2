"""The topology request of a pod set: levels, slices, and constraints at each level."""

from __future__ import annotations

from typing import Annotated

from api.meta import KubeModel
from api.schema import (
    LABEL_KEY,
    LevelName,
    atomic,
    map_by,
    schema,
)

MAX_CONSTRAINTS = 16


class SliceConstraint(KubeModel):
    """One layer of slices: every `size` pods in one domain of level `topology`."""

    topology: Annotated[LevelName, schema("Label key of the level.")]
    size: Annotated[int, schema("Pods of one slice.", mandatory=True, format="int32", minimum=1)] = 0


class PlacementConstraint(KubeModel):
    """A requirement at one level of the topology."""

    level: Annotated[
        str,
        schema(
            "Label key of the level, or its last part.", mandatory=True, minLength=1, maxLength=316, pattern=LABEL_KEY
        ),
    ] = ""
    type: Annotated[
        str, schema("Pack onto few domains of the level, or spread evenly.", default=None, enum=["pack", "spread"])
    ] = "pack"
    partitions: Annotated[int | None, schema("Exact number of used domains.", format="int32", minimum=1)] = None
    min: Annotated[int | None, schema("Fewest pods in a used domain.", format="int32", minimum=1)] = None
    max: Annotated[int | None, schema("Most pods in a used domain.", format="int32", minimum=1)] = None
    factor: Annotated[
        int | None, schema("Pods in a used domain are a multiple of this.", format="int32", minimum=1)
    ] = None
    hard: Annotated[bool, schema("Never violate; if false, violate as little as possible.")] = False


class TopologyRequest(KubeModel):
    """The topology request of a pod set."""

    required: Annotated[str | None, schema("All pods in one domain of this level.", maxLength=63)] = None
    preferred: Annotated[str | None, schema("All pods in as few domains of this level as possible.", maxLength=63)] = (
        None
    )
    unconstrained: Annotated[bool | None, schema("Anywhere, but counted by topology.")] = None
    pod_index_label: Annotated[str | None, schema("Label with a pod's rank.", maxLength=317)] = None
    sub_group_index_label: Annotated[str | None, schema("Label with the replicated job's index.", maxLength=317)] = None
    sub_group_count: Annotated[int | None, schema("Number of replicated jobs.", format="int32", minimum=0)] = None
    pod_set_group_name: Annotated[
        str | None, schema("Pod sets of one name are placed together, on one flavor.", maxLength=256)
    ] = None
    pod_set_slice_required_topology: Annotated[
        str | None, schema("Each slice in one domain of this level.", maxLength=63)
    ] = None
    pod_set_slice_size: Annotated[int | None, schema("Pods of one slice.", format="int32", minimum=1)] = None
    # the wire's own spelling: lower-case s
    podset_slice_required_topology_constraints: Annotated[
        tuple[SliceConstraint, ...] | None, schema("Layers of slices, widest first.", **atomic(maxItems=3))
    ] = None
    constraints: Annotated[
        tuple[PlacementConstraint, ...] | None,
        schema(
            "Requirements at each level (an extension of Stowage).",
            **map_by("level", minItems=1, maxItems=MAX_CONSTRAINTS),
        ),
    ] = None
    relax_after_seconds: Annotated[
        int | None,
        schema(
            "Seconds of waiting after which the required level is widened by one, repeatedly (an extension of Stowage).",
            format="int32",
            minimum=1,
        ),
    ] = None
    spare_hosts: Annotated[
        int | None,
        schema(
            "Hosts that are kept free for pods whose host fails (an extension of Stowage).",
            format="int32",
            minimum=1,
            maximum=100,
        ),
    ] = None

    @property
    def explicit(self) -> bool:
        """Reports whether a topology is requested; `unconstrained: false` counts, an index label alone does not."""
        return any(
            v is not None
            for v in (
                self.required,
                self.preferred,
                self.unconstrained,
                self.pod_set_slice_required_topology,
                self.pod_set_slice_size,
            )
        ) or bool(self.podset_slice_required_topology_constraints or self.constraints)
