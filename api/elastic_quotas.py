"""ElasticQuota: the guaranteed and the maximum quota of a namespace (v1alpha1, in the two groups that manifests use).

Both groups are served with the same fields, each as its own kind. A namespace has at most one object across both groups.
admission/controllers/elastic_quota implements it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from api.meta import Condition, KubeModel, KubeObject
from api.names import ELASTIC_GROUP, ELASTIC_QUOTA, ELASTIC_SIGS_GROUP, ELASTIC_VERSION
from api.schema import CONDITIONS, INT_OR_STRING, Quantity, schema

_AMOUNTS = {"type": "object", "additionalProperties": INT_OR_STRING, "maxProperties": 64}


class ElasticQuotaSpec(KubeModel):
    """Guaranteed (`min`) and maximum (`max`) amounts by resource."""

    min: Annotated[
        dict[str, Quantity],
        schema("Guaranteed quota, whose unused part others may borrow; 0 for resources without an entry.", **_AMOUNTS),
    ] = Field(default_factory=dict)
    max: Annotated[
        dict[str, Quantity], schema("Maximum quota; unlimited for resources without an entry.", **_AMOUNTS)
    ] = Field(default_factory=dict)


class ElasticQuotaStatus(KubeModel):
    """Quota that the namespace's workloads hold; conditions Active, Overcommitted and AboveResourceQuota."""

    used: Annotated[dict[str, Quantity], schema("Used amounts of the resources that count in quota.", **_AMOUNTS)] = (
        Field(default_factory=dict)
    )
    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class ElasticQuota(KubeObject):
    """The guaranteed and the maximum quota of a namespace."""

    API_VERSION: ClassVar[str] = f"{ELASTIC_GROUP}/{ELASTIC_VERSION}"
    KIND: ClassVar[str] = "ElasticQuota"

    spec: ElasticQuotaSpec = Field(default_factory=ElasticQuotaSpec)
    status: ElasticQuotaStatus = Field(default_factory=ElasticQuotaStatus)


class SigsElasticQuota(ElasticQuota):
    """ElasticQuota in the API group of older manifests."""

    API_VERSION: ClassVar[str] = f"{ELASTIC_SIGS_GROUP}/{ELASTIC_VERSION}"


def cluster_queue_name(namespace: str) -> str:
    """Returns the name of the ClusterQueue in which the elastic quota of the namespace counts."""
    return f"{ELASTIC_QUOTA}.{namespace}"
