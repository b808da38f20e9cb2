"""The jobs of Kubeflow's training operator (kubeflow.org/v1). They differ in the map of their replicas and in its roles."""

from __future__ import annotations

from typing import Final

from admission.integrations.declared import Declaration
from api.kube.resources import Resource


def _declared(kind: str, replicas: str, *roles: str) -> Declaration:
    return Declaration(
        framework=f"kubeflow.org/{kind.lower()}",
        resource=Resource("kubeflow.org", "v1", f"{kind.lower()}s", kind),
        replicas=("spec", replicas),
        roles=roles,
        suspend=("spec", "runPolicy", "suspend"),
        statuses=("status", "replicaStatuses"),
        ready="Running",
        succeeded="Succeeded",
        failed="Failed",
        priority_class=("spec", "runPolicy", "schedulingPolicy", "priorityClass"),
        rank_label="training.kubeflow.org/replica-index",
        name_label="training.kubeflow.org/job-name",
        controller="kubeflow.org/training-operator",
        added={"cpu": 100, "memory": 20 * 1024 * 1024},  # the container in which workers wait for the master
    )


KUBEFLOW: Final = (
    _declared("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker"),
    _declared("TFJob", "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    _declared("XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),
    _declared("PaddleJob", "paddleReplicaSpecs", "Master", "Worker"),
    _declared("JAXJob", "jaxReplicaSpecs", "Worker"),
)
