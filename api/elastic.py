"""ElasticQuota: what a namespace is guaranteed and the most it may use (v1alpha1, in the two groups that manifests name).

Both groups are served with the same fields, each as a kind of its own; a namespace has one object in all, whichever the group.
What it means is said in admission/controllers/elastic.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import ELASTIC_GROUP, ELASTIC_SIGS_GROUP, ELASTIC_VERSION
from api.schema import CONDITIONS, INT_OR_STRING, Quantity, schema

_AMOUNTS = {"type": "object", "additionalProperties": INT_OR_STRING, "maxProperties": 64}


class ElasticQuotaSpec(KubeModel):
    """Two lists of resources."""

    min: Annotated[
        dict[str, Quantity],
        schema("What is guaranteed; others may borrow what is unused of it. A resource not named: 0.", **_AMOUNTS),
    ] = Field(default_factory=dict)
    max: Annotated[
        dict[str, Quantity], schema("The most that may be used. A resource not named: no limit.", **_AMOUNTS)
    ] = Field(default_factory=dict)


class ElasticQuotaStatus(KubeModel):
    """What the namespace's workloads hold; conditions Active and Overcommitted."""

    used: Annotated[dict[str, Quantity], schema("What is held of the resources that count.", **_AMOUNTS)] = Field(
        default_factory=dict
    )
    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class ElasticQuota(KubeObject):
    """A namespace's guaranteed and greatest share of the cluster."""

    API_VERSION: ClassVar[str] = f"{ELASTIC_GROUP}/{ELASTIC_VERSION}"
    KIND: ClassVar[str] = "ElasticQuota"

    spec: ElasticQuotaSpec = Field(default_factory=ElasticQuotaSpec)
    status: ElasticQuotaStatus = Field(default_factory=ElasticQuotaStatus)


class SigsElasticQuota(ElasticQuota):
    """The same in the group that older manifests name."""

    API_VERSION: ClassVar[str] = f"{ELASTIC_SIGS_GROUP}/{ELASTIC_VERSION}"
