"""Elastic quotas as a feature of the controller."""

from __future__ import annotations

from admission.controllers.elastic_quota.quota_controller import ElasticQuotaController
from admission.controllers.elastic_quota.resource_quotas import ResourceQuota
from admission.controllers.watch.feature import ControllerFeature, FeatureContext
from api.kube.informers.optional_informer import OptionalInformer
from api.kube.resources import ELASTIC_QUOTAS, RESOURCE_QUOTAS, SIGS_ELASTIC_QUOTAS


class ElasticQuotas(ControllerFeature):
    """Keeps a queue for each namespace with an elastic quota, of either API group."""

    def __init__(self, context: FeatureContext) -> None:
        quotas = {kind: OptionalInformer(context.kube, kind) for kind in (ELASTIC_QUOTAS, SIGS_ELASTIC_QUOTAS)}
        hard = OptionalInformer(context.kube, RESOURCE_QUOTAS, ResourceQuota)
        all_wait = context.settings.manage_jobs_without_queue_name
        controller = ElasticQuotaController(
            context.writer, context.views, quotas, hard, context.recorder, all_wait=all_wait
        )
        self.informers = (*quotas.values(), hard)
        self.runs = (("elastic quotas", controller.run),)
