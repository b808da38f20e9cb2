"""Clusters, foreign pods and gangs, drawn by a seed as manifests, with the terms by which kube-scheduler refuses nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from api.names import HOSTNAME_LABEL, PREFER_TOPOLOGY, QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY, UNCONSTRAINED_TOPOLOGY
from tests.binds.outside import DISK, TAINT, Made, Outside
from tests.scenarios.site import BLOCK, GPU, GROUP, RACK

Object = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
_APPS: Final = ("a", "b", "c")
_LEVELS: Final = (BLOCK, RACK, HOSTNAME_LABEL)
_KEYS: Final = (HOSTNAME_LABEL, HOSTNAME_LABEL, RACK, ZONE, BLOCK)


@dataclass(frozen=True)
class Gang:
    """A Job and what has to be there before it. `terms`: what was drawn, for the report."""

    name: str
    job: Object
    pods: int
    required: str | None
    terms: tuple[str, ...]
    claims: tuple[Made, ...] = ()

    @property
    def template(self) -> Object:
        """Of its pods."""
        found: Object = self.job["spec"]["template"]
        return found


@dataclass
class Draw:
    """One cluster's draws; `site`: the name of its corner, which nodes and volumes bear. `outside`: what pods may refer to."""

    rng: Random
    site: str
    levels: tuple[str, ...] = _LEVELS
    hosts: list[str] = field(default_factory=list)
    made: int = 0
    outside: Outside | None = None

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # ---- the cluster

    def nodes(self) -> list[Object]:
        """Two blocks at most, each of one to three racks of one to four hosts; some tainted, some without a zone."""
        rng, found = self.rng, list[Object]()
        by_block = self.chance(0.6)
        self.levels = _LEVELS[:2] if self.chance(0.25) else _LEVELS
        for block in range(rng.randint(1, 2)):
            for rack in range(rng.randint(1, 3)):
                for _ in range(rng.randint(2, 5)):
                    name = f"{self.site}-n{len(found):02d}"
                    zone = f"z{block}" if by_block else rng.choice(["z0", "z1", None])
                    labels = {GROUP: self.site, BLOCK: f"b{block}", RACK: f"r{block}{rack}", HOSTNAME_LABEL: name}
                    labels |= {ZONE: zone} if zone else {}
                    labels |= {DISK: "ssd"} if self.chance(0.5) else {}
                    found.append(self._node(name, labels))
        self.hosts = [node["metadata"]["name"] for node in found]
        return found

    def _node(self, name: str, labels: dict[str, str]) -> Object:
        rng = self.rng
        size = {"cpu": str(rng.randint(2, 6)), "memory": "64Gi", "pods": str(rng.choice([3, 5, 10])), GPU: "8"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        spec: Object = {"taints": [dict(TAINT)]} if self.chance(0.15) else {}
        if self.chance(0.05):
            spec["unschedulable"] = True
        status = {"capacity": size, "allocatable": size, "conditions": [ready]}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def objects(self) -> list[Made]:
        """What pods of this cluster may refer to. Called once the nodes are drawn."""
        if self.outside is None:
            self.outside = Outside(self.rng, self.site, self.hosts)
        return list(self.outside.objects())

    # ---- pods

    def foreign(self) -> Object:
        """A pod of nobody's."""
        self.made += 1
        template = self._template()
        spec = template["spec"]
        for _ in range(self.rng.choice([0, 0, 1])):
            self.rng.choice(self._foreign_terms())(template)
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), GROUP: self.site}
        metadata = {"name": f"foreign-{self.made}", "namespace": self.site, "labels": template["metadata"]["labels"]}
        return {"metadata": metadata, "spec": spec}

    def _foreign_terms(self) -> list[Callable[..., str]]:
        more = [self.outside.device] if self.outside is not None else []
        return [self._port, self._apart, self._tolerates, *more]

    def gang(self) -> Gang:
        """A Job with up to three kinds of terms, and with what it asks of the topology."""
        self.made += 1
        rng, name = self.rng, f"gang-{self.made}"
        template, pods = self._template(), rng.choice([1, 2, 2, 3, 4, 6])
        kinds = [self._port, self._apart, self._near, self._spread, self._selects, self._wishes, self._tolerates]
        out = self.outside
        more = [out.claim, out.claim, out.device, out.runtime] if out is not None else []
        chosen = rng.sample([*kinds, self._apart, self._spread, *more], rng.choice([0, 1, 1, 2, 2, 3]))
        claims: list[Made] = []
        terms = [term for kind in dict.fromkeys(chosen) if (term := kind(template, claims, name))]
        annotations, required = self._topology()
        spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0}
        labels = {QUEUE_NAME_LABEL: "lq"}
        metadata = {"name": name, "namespace": self.site, "labels": labels, "annotations": annotations}
        job = {"metadata": metadata, "spec": {**spec, "template": template}}
        topologies = tuple(f"{key.rpartition('/')[2]}={value}" for key, value in annotations.items())
        return Gang(name, job, pods, required, (*terms, *topologies), tuple(claims))

    def _template(self) -> Object:
        requests = {"cpu": str(self.rng.choice([1, 1, 2]))}
        container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        return {"metadata": {"labels": {"app": self.rng.choice(_APPS)}}, "spec": spec}

    def _topology(self) -> tuple[dict[str, str], str | None]:
        level = self.rng.choice(self.levels)
        match self.rng.choice(["none", "none", "require", "require", "prefer", "anywhere"]):
            case "require":
                return {REQUIRE_TOPOLOGY: level}, level
            case "prefer":
                return {PREFER_TOPOLOGY: level}, None
            case "anywhere":
                return {UNCONSTRAINED_TOPOLOGY: "true"}, None
            case _:
                return {}, None

    # ---- terms

    def _port(self, template: Object, *_: Any) -> str:
        port = {
            "containerPort": 80,
            "hostPort": self.rng.choice([7001, 7002]),
            "protocol": self.rng.choice(["TCP", "UDP"]),
        }
        if self.chance(0.4):
            port["hostIP"] = self.rng.choice(["10.0.0.1", "10.0.0.2"])
        template["spec"]["containers"][0]["ports"] = [port]
        return f"port {port.get('hostIP', '')}:{port['hostPort']}/{port['protocol']}"

    def _selector(self, template: Object) -> Object:
        rng = self.rng
        app = rng.choice([template["metadata"]["labels"]["app"], *_APPS])
        if self.chance(0.2):
            return {"matchExpressions": [{"key": "app", "operator": rng.choice(["In", "NotIn"]), "values": [app]}]}
        return {"matchLabels": {"app": app}}

    def _term(self, template: Object) -> Object:
        term: Object = {"topologyKey": self.rng.choice(_KEYS), "labelSelector": self._selector(template)}
        if self.chance(0.1):
            term["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": self.site}}
        return term

    def _apart(self, template: Object, *_: Any) -> str:
        term = self._term(template)
        affinity = template["spec"].setdefault("affinity", {})
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return f"apart {term}"

    def _near(self, template: Object, *_: Any) -> str:
        term = self._term(template)
        affinity = template["spec"].setdefault("affinity", {})
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return f"near {term}"

    def _spread(self, template: Object, *_: Any) -> str:
        found = []
        for key in self.rng.sample([HOSTNAME_LABEL, RACK, ZONE], self.rng.choice([1, 1, 2])):
            one: Object = {
                "topologyKey": key,
                "maxSkew": self.rng.choice([1, 1, 2]),
                "whenUnsatisfiable": "DoNotSchedule",
            }
            own = {"matchLabels": {"app": template["metadata"]["labels"]["app"]}}
            one["labelSelector"] = own if self.chance(0.8) else self._selector(template)
            if self.chance(0.1):
                one["minDomains"] = self.rng.randint(1, 3)
            if self.chance(0.15):
                one["nodeTaintsPolicy"] = "Honor"
            if self.chance(0.15):
                one["matchLabelKeys"] = ["tier"]
            found.append(one)
        template["spec"]["topologySpreadConstraints"] = found
        return f"spread {found}"

    def _selects(self, template: Object, *_: Any) -> str:
        key, value = self.rng.choice([(ZONE, "z0"), (ZONE, "z1"), (DISK, "ssd"), (RACK, "r00")])
        template["spec"]["nodeSelector"] = {key: value}
        return f"selects {key}={value}"

    def _wishes(self, template: Object, *_: Any) -> str:
        one: Object = self.rng.choice(
            [
                {"key": ZONE, "operator": "In", "values": ["z0"]},
                {"key": ZONE, "operator": "NotIn", "values": ["z1"]},
                {"key": DISK, "operator": "Exists"},
                {"key": DISK, "operator": "DoesNotExist"},
            ]
        )
        terms = {"nodeSelectorTerms": [{"matchExpressions": [one]}]}
        affinity = template["spec"].setdefault("affinity", {})
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return f"wishes {one['key']} {one['operator']}"

    def _tolerates(self, template: Object, *_: Any) -> str:
        template["spec"]["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
        return "tolerates"
