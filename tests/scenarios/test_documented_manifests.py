"""Every manifest of the samples, the README and docs is accepted as it stands, with each of its fields.

Each object goes to the API server as a dry run, so through its schema and the webhooks. `annotations:` alone in a block is
what a Job has, `metadata:` alone what a pod has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from admission.integrations.registry import DECLARED
from api.assignment import decode
from api.errors import AlreadyExists, ApiError, NotFound
from api.kube.resources import ALL, LEADER_WORKER_SETS, NAMESPACES, POLICY_BINDINGS, Resource
from api.text.manifests import parsed
from api.topology_assignment import TopologyAssignment
from tests.scenarios.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]

PROJECT: Final = Path(__file__).resolve().parents[2]
SAMPLES: Final = PROJECT / "config" / "samples"
BLOCKS: Final = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES: Final = [
    page
    for page in (PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md")))
    if BLOCKS.search(page.read_text())
]
FILES: Final = sorted(file for file in SAMPLES.rglob("*.yaml") if file.name != "kustomization.yaml")
OPERATORS: Final = {kind.resource for kind in DECLARED} | {
    LEADER_WORKER_SETS,
    Resource("argoproj.io", "v1alpha1", "workflows", "Workflow"),
    Resource("disaggregatedset.x-k8s.io", "v1", "disaggregatedsets", "DisaggregatedSet"),
    Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime"),
    Resource("example.com", "v1", "cranes", "Crane"),
}
"""Kinds that the stages do not serve unless another module has brought their CRD; `make e2e-kinds` has their operators."""
UNSERVED: Final = {*OPERATORS, POLICY_BINDINGS}
"""Kinds that a stage may not serve: the embedded API server has no policies."""
RESOURCES: Final = {(each.api_version, each.kind): each for each in (*UNSERVED, *ALL)}
CONTAINERS: Final = {
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "busybox:1.37", "resources": {"requests": {"cpu": "1"}}}],
}
QUEUED: Final = {"kueue.x-k8s.io/queue-name": "research"}


def whole(fragment: Object) -> Object:
    """The manifest that a block shows a part of."""
    if fragment.keys() == {"annotations"}:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "fragment", "labels": QUEUED, **fragment},
            "spec": {
                "parallelism": 8,
                "completions": 8,
                "completionMode": "Indexed",
                "template": {"spec": CONTAINERS},
            },
        }
    if fragment.keys() == {"metadata"}:
        metadata = {"name": "fragment", **fragment["metadata"]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": CONTAINERS}
    return fragment


def manifests(file: Path) -> Iterator[Object]:
    """The objects of a sample, or of the blocks of a page. Settings are tested by tests/test_readme.py; what Argo CD and Flux
    read is part of objects that only they serve.
    """
    text = file.read_text()
    for block in [text] if file.suffix == ".yaml" else BLOCKS.findall(text):
        if not block.startswith(("# settings", "# Argo CD", "# Flux")):
            yield from (whole(document) for document in parsed(block))


def lost(written: Any, answered: Any, path: str = "") -> Iterator[str]:
    """The fields that the API server dropped, because its schema does not have them."""
    if isinstance(written, Mapping) and isinstance(answered, Mapping):
        for key, value in written.items():
            if key not in answered:
                yield f"{path}.{key}"
            else:
                yield from lost(value, answered[key], f"{path}.{key}")
    elif isinstance(written, list) and isinstance(answered, list):
        for at, (value, answer) in enumerate(zip(written, answered, strict=False)):
            yield from lost(value, answer, f"{path}[{at}]")


@pytest.mark.parametrize("file", [*FILES, *PAGES], ids=lambda file: str(file.relative_to(PROJECT)))
async def test_each_manifest_is_accepted_with_all_fields(site: MakeSite, file: Path) -> None:
    here = site("documented")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    for obj in manifests(file):
        if obj.keys() == {"topologyAssignment"}:
            assert list(decode(TopologyAssignment.model_validate(obj["topologyAssignment"])))
            continue
        resource = RESOURCES[obj["apiVersion"], obj["kind"]]
        name = f"{obj['kind']} {obj['metadata']['name']}"
        if resource.namespaced:
            obj["metadata"]["namespace"] = here.name
        try:
            answer = await here.kube.create(resource, obj, dry_run=True)
        except AlreadyExists:
            continue  # another scenario has the sample in use
        except NotFound:
            assert resource in UNSERVED, name
            continue
        except ApiError as refused:
            pytest.fail(f"{name}: {refused}")
        # A creation drops the status of a resource that has that subresource; some samples are for simulations.
        assert [field for field in lost(obj, answer) if field != ".status"] == [], name
