"""What pods refer to by name, drawn as manifests: volumes, drivers with a limit, devices, runtime classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from api.kube.resources import (
    CLAIMS,
    CSI_NODES,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from api.names import HOSTNAME_LABEL
from api.pod.volumes import NO_PROVISIONER

Object = dict[str, Any]
Made = tuple[Resource, Object]
"""What has to be created, and as what."""

DISK: Final = "example.com/disk"
ATTACHED: Final = "claim attached"
"""The term of pods that share a claim whose volume counts towards a node's limit."""
TAINT: Final = {"key": "example.com/reserved", "value": "x", "effect": "NoSchedule"}
_GI: Final = {"storage": "1Gi"}


@dataclass
class Outside:
    """The objects of one site; `hosts`: its nodes."""

    rng: Random
    site: str
    hosts: Sequence[str]

    def objects(self) -> Iterator[Made]:
        """Two classes of volumes that are there already (on one host each; on several), devices and a runtime class."""
        for name in (self.site, self._wide):
            metadata = {"name": name}
            binding = {"provisioner": NO_PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
            yield STORAGE_CLASSES, {"metadata": metadata, **binding}
        for n in range(4):
            yield self._volume(f"{self.site}-v{n}", [self.rng.choice(self.hosts)])
        for n in range(3):
            yield self._volume(f"{self._wide}-v{n}", self._some(2, 4), storage_class=self._wide)
        yield from self._limits()
        yield from self._devices()
        scheduling = {"nodeSelector": {DISK: "ssd"}, "tolerations": [{"key": TAINT["key"], "operator": "Exists"}]}
        given = {"handler": "h", "scheduling": scheduling, "overhead": {"podFixed": {"cpu": "500m"}}}
        yield RUNTIME_CLASSES, {"metadata": {"name": self.site}, **given}

    @property
    def _wide(self) -> str:
        return f"{self.site}-wide"

    @property
    def _driver(self) -> str:
        return f"{self.site}.example.com"

    def _some(self, fewest: int, most: int) -> list[str]:
        return self.rng.sample(list(self.hosts), min(len(self.hosts), self.rng.randint(fewest, most)))

    def _limits(self) -> Iterator[Made]:
        for host in self.hosts:
            if self.rng.random() < 0.7:
                allocatable = {"count": self.rng.choice([2, 3, 5])}
                driver = {"name": self._driver, "nodeID": host, "topologyKeys": None, "allocatable": allocatable}
                yield CSI_NODES, {"metadata": {"name": host}, "spec": {"drivers": [driver]}}

    def _devices(self) -> Iterator[Made]:
        """Each host has one of two models; a template for one of any, for two, and for one of the model a."""
        expression = f'device.driver == "{self._driver}"'
        selectors = [{"cel": {"expression": expression}}]
        yield DEVICE_CLASSES, {"metadata": {"name": self.site}, "spec": {"selectors": selectors}}
        for host in self.hosts:
            model = self.rng.choice("ab")
            devices = [
                {"name": f"gpu-{n}", "attributes": {"model": {"string": model}}} for n in range(self.rng.randint(0, 3))
            ]
            pool = {"name": host, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": self._driver, "nodeName": host, "pool": pool, "devices": devices}
            if devices:
                yield RESOURCE_SLICES, {"metadata": {"name": host}, "spec": spec}
        only_a = {"cel": {"expression": f'device.attributes["{self._driver}"].model == "a"'}}
        for name, more in (("one", {}), ("two", {"count": 2}), ("model", {"selectors": [only_a]})):
            exactly = {"deviceClassName": self.site, **more}
            spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
            yield RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": self.site}, "spec": spec}

    # ---- terms of pods

    def runtime(self, template: Object, *_: Any) -> str:
        template["spec"]["runtimeClassName"] = self.site
        return "runtime class"

    def device(self, template: Object, *_: Any) -> str:
        name = self.rng.choice(["one", "one", "two", "model"])
        template["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
        template["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return f"devices {name}"

    def claim(self, template: Object, obj: list[Made], name: str) -> str:
        kind = self.rng.choice(
            ["bound", "bound", "alone", "local", "wide", "each", "each wide", "attached", "attached"]
        )
        if kind.startswith("each"):
            claim = self._claim_spec(self._wide if kind == "each wide" else self.site)
            template["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
            return f"a volume for {kind} pod"
        template["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        if kind == "attached":
            obj += self.attached(name)
            return ATTACHED
        mode = "ReadWriteOncePod" if kind == "alone" else "ReadWriteOnce"
        spec = self._claim_spec(self._wide if kind == "wide" else self.site, mode)
        if kind in ("bound", "alone"):
            volume = f"{self.site}-{name}"
            obj.append(self._volume(volume, self._some(1, 3), claim=name, mode=mode))
            spec["volumeName"] = volume
        obj.append((CLAIMS, {"metadata": {"name": name, "namespace": self.site}, "spec": spec}))
        return f"claim {kind}"

    def attached(self, name: str) -> tuple[Made, Made]:
        """A volume of the driver that limits how many a node attaches, and the claim of this name that has it."""
        volume = f"{self.site}-{name}"
        csi = {"csi": {"driver": self._driver, "volumeHandle": volume}}
        claim = {**self._claim_spec(self.site), "volumeName": volume}
        return (
            self._volume(volume, [], claim=name, source=csi),
            (CLAIMS, {"metadata": {"name": name, "namespace": self.site}, "spec": claim}),
        )

    @staticmethod
    def _claim_spec(storage_class: str, mode: str = "ReadWriteOnce") -> Object:
        return {"accessModes": [mode], "storageClassName": storage_class, "resources": {"requests": _GI}}

    def _volume(
        self,
        name: str,
        hosts: Sequence[str],
        *,
        claim: str = "",
        mode: str = "ReadWriteOnce",
        storage_class: str = "",
        source: Mapping[str, Any] | None = None,
    ) -> Made:
        spec: Object = {
            "capacity": _GI,
            "accessModes": [mode],
            "storageClassName": storage_class or self.site,
            **(source or {"local": {"path": "/data"}}),
        }
        if hosts:
            term = {"matchExpressions": [{"key": HOSTNAME_LABEL, "operator": "In", "values": list(hosts)}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        if claim:
            ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.site, "name": claim}
            spec["claimRef"] = ref
        return VOLUMES, {"metadata": {"name": name}, "spec": spec}
