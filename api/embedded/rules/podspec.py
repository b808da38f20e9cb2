"""Defaults of a PodSpec, for pods and templates of jobs.

Only fields that readers may depend on: policies, grace period, scheduler name. Called by pods.py and jobs.py.
"""

from __future__ import annotations

from api.embedded.status import Obj

_POD = (
    ("restartPolicy", "Always"),
    ("terminationGracePeriodSeconds", 30),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
)
_CONTAINER = (
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
)


def default_pod_spec(spec: Obj) -> None:
    """Sets the defaults in place."""
    for name, value in _POD:
        if spec.get(name) is None:
            spec[name] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _container(container)
    for toleration in spec.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration.pop("operator", None)


def _container(container: Obj) -> None:
    for name, value in _CONTAINER:
        container.setdefault(name, value)
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _pull_policy(image: str) -> str:
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "Always" if "@" not in image and tag in ("", "latest") else "IfNotPresent"
