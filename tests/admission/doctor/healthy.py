"""A view in which nothing is wrong: the shipped manifests, two flavors with nodes, and queues of them."""

from __future__ import annotations

import base64
import copy
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from admission.cli.local_cluster.install import CONFIG
from admission.doctor.expected import Expected, expected
from admission.doctor.question import Question
from admission.doctor.view import CONTROLLER, UNGATER, WEBHOOK, View, name_of, namespace_of
from api.kube import resources as kinds
from api.meta import rfc3339
from api.names import HOSTNAME_LABEL
from api.text.manifests import read_one
from tests.builders import NOW

OURS = "stowage-system"
BLOCK, RACK, POOL = "example.com/block", "example.com/rack", "example.com/pool"
TAINT = {"key": "dedicated", "value": "train", "effect": "NoSchedule"}
Obj = dict[str, Any]


@cache
def shipped() -> Expected:
    """The manifests of config/."""
    return expected(CONFIG, OURS)


@cache
def ca(days: float) -> str:
    """A CA in PEM and base64 that is valid for so many days from the epoch of the tests."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stowage")])
    start = datetime.fromtimestamp(NOW, UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start - timedelta(days=30))
    made = builder.not_valid_after(start + timedelta(days=days)).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def named(name: str, spec: Obj | None = None, status: Obj | None = None, **meta: Any) -> Obj:
    """An object."""
    return {"metadata": {"name": name, **meta}, "spec": spec or {}, "status": status or {}}


def node(name: str, **labels: str) -> Obj:
    """A node of 32 CPUs; `block`, `rack`, `pool` are short for the labels of this site."""
    known = {"block": BLOCK, "rack": RACK, "pool": POOL, "hostname": HOSTNAME_LABEL}
    given = {HOSTNAME_LABEL: name, **{known.get(key, key): value for key, value in labels.items()}}
    return named(name, {}, {"allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"}}, labels=given)


def queue(name: str, flavor: str, cpu: str = "64", **spec: Any) -> Obj:
    """A ClusterQueue with quota of one flavor."""
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}
    return named(name, {"resourceGroups": [group], **spec})


def flavor(name: str, nodes: dict[str, str], **spec: Any) -> Obj:
    """A ResourceFlavor."""
    return named(name, {"nodeLabels": nodes, **spec})


@cache
def _manifest(name: str) -> Obj:
    process: Obj = read_one(CONFIG / "manager" / f"{name}.yaml")
    return process


def _deployment(name: str) -> Obj:
    process = copy.deepcopy(_manifest(name.removeprefix("stowage-")))
    process["status"] = {"availableReplicas": 2}
    volumes = process["spec"]["template"]["spec"]["volumes"]
    volumes[0]["configMap"]["name"] = "stowage-config-1"
    return process


def _trusting(configuration: Obj) -> Obj:
    for hook in configuration["webhooks"]:
        hook["clientConfig"]["caBundle"] = ca(90)
    return configuration


@cache
def _crds() -> tuple[Obj, ...]:
    crds = copy.deepcopy(tuple(shipped().crds.values()))
    for crd in crds:
        if "webhook" in (crd["spec"].get("conversion") or {}):
            crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = ca(90)
    return crds


def lease(name: str, **spec: Any) -> Obj:
    """A Lease renewed two seconds ago."""
    usual = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": rfc3339(NOW - 2)}
    return named(name, {**usual, **spec}, namespace=OURS)


def objects() -> dict[kinds.Resource, list[Obj]]:
    """The objects of a healthy cluster by kind; the caller may change them, except that it copies a CRD first.

    CRDs take a megabyte, and each worker makes hundreds of views when it collects the tests.
    """
    text = (CONFIG / "manager" / "settings" / "admission.yaml").read_text()
    hooks = {
        kind: [_trusting(copy.deepcopy(one)) for one in shipped().webhooks.values() if one["kind"] == kind.kind]
        for kind in (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS)
    }
    policies = {
        kind: [copy.deepcopy(one) for _, one in shipped().policies if one["kind"] == kind.kind]
        for kind in (kinds.POLICIES, kinds.POLICY_BINDINGS)
    }
    return {
        **hooks,
        **policies,
        kinds.CRDS: list(_crds()),
        kinds.DEPLOYMENTS: [_deployment(name) for name in (CONTROLLER, UNGATER, WEBHOOK)],
        kinds.CONFIG_MAPS: [
            {"metadata": {"name": "stowage-config-1", "namespace": OURS}, "data": {"admission.yaml": text}}
        ],
        kinds.SERVICES: [named(WEBHOOK, namespace=OURS)],
        kinds.LEASES: [lease(CONTROLLER), lease(UNGATER)],
        kinds.NODES: [
            *(node(f"n{number}", block="b1", rack="r1", pool="train") for number in range(3)),
            node("n3", block="b1", rack="r2", pool="train"),
            node("n4", serves="others"),
        ],
        kinds.TOPOLOGIES: [named("racks", {"levels": [{"nodeLabel": each} for each in (BLOCK, RACK, HOSTNAME_LABEL)]})],
        kinds.RESOURCE_FLAVORS: [
            flavor("train", {POOL: "train"}, topologyName="racks", nodeTaints=[TAINT]),
            flavor("serve", {"serves": "others"}),
        ],
        kinds.CLUSTER_QUEUES: [
            queue("research", "train", cohortName="all"),
            queue("guests", "train", "0", cohortName="all"),
            queue("services", "serve", "16"),
        ],
        kinds.COHORTS: [],
        kinds.LOCAL_QUEUES: [named("research", {"clusterQueue": "research"}, namespace="default")],
        kinds.WORKLOADS: [],
        kinds.JOB_KINDS: [],
    }


def view(changed: dict[kinds.Resource, list[Obj]] | None = None, **more: Any) -> View:
    """A view of these objects, else of the healthy ones."""
    found = {
        kind: sorted(listed, key=lambda item: (namespace_of(item), name_of(item)))
        for kind, listed in (changed or objects()).items()
    }
    answers = {Question.ADMISSION: "", Question.CONVERSION: ""}
    return View(OURS, NOW, shipped(), objects=found, **{"answers": answers, **more})
