"""Translates ElasticQuotas in files to the queues that the controller would create. Called by input_objects.py.

If the files also contain queues of the same names, as a copy of a live cluster does, those take precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pydantic import ValidationError

from admission.controllers.elastic_quota import translation
from admission.controllers.elastic_quota.quotas import Quotas
from admission.world.documents import Document
from api.elastic_quotas import ElasticQuota
from api.errors import InvalidObject
from api.kube.resources import (
    CLUSTER_QUEUES,
    ELASTIC_QUOTAS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    SIGS_ELASTIC_QUOTAS,
    Resource,
)

KINDS: Final = (ELASTIC_QUOTAS, SIGS_ELASTIC_QUOTAS)
Made = tuple[Resource, dict[str, Any]]


def queues_of(quotas: Iterable[tuple[Resource, Document]]) -> tuple[list[Made], list[tuple[Document, str]]]:
    """Returns the flavor, ClusterQueues and LocalQueues, and the documents that cannot be translated with the reason."""
    elastic_quotas, faults, documents = Quotas(), list[tuple[Document, str]](), dict[str, Document]()
    for resource, document in quotas:
        try:
            quota = ElasticQuota.from_wire(document.object)
            translation.bounds(quota)
        except InvalidObject as bad:
            faults.append((document, str(bad)))
            continue
        except ValidationError as bad:
            faults.append((document, "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in bad.errors())))
            continue
        key = f"{resource.group}/{quota.key}"
        documents[key] = document
        elastic_quotas.put(key, resource, quota)
    for namespace in sorted(elastic_quotas.namespaces()):
        for entry in elastic_quotas.of(namespace)[1:]:
            document = documents[f"{entry.resource.group}/{entry.quota.key}"]
            faults.append((document, "not taken: a namespace has one elastic quota, and another one is older"))
    return list(_objects(elastic_quotas)) if documents else [], faults


def _objects(elastic_quotas: Quotas) -> Iterator[Made]:
    yield RESOURCE_FLAVORS, translation.flavor().to_wire()
    for namespace in sorted(elastic_quotas.namespaces()):
        bounds = elastic_quotas.of(namespace)[0].bounds
        if bounds is not None:
            yield CLUSTER_QUEUES, translation.cluster_queue(namespace, bounds, elastic_quotas.shared()).to_wire()
            yield LOCAL_QUEUES, translation.local_queue(namespace).to_wire()


def is_among(translated: Made, documents: Sequence[Document]) -> bool:
    """Reports whether `documents` has an object of this name."""
    meta = translated[1]["metadata"]
    names = ((d.object["metadata"].get("namespace"), d.object["metadata"]["name"]) for d in documents)
    return (meta.get("namespace"), meta["name"]) in names
