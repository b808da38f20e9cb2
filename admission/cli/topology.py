"""`stowage topology init`: Topology and ResourceFlavors from the labels that a cloud or Topograph put on nodes.

Prints the tree and what is odd to stderr, and the manifests to stdout, for `kubectl apply -f -`; or writes them. Exit codes: 0
when printed or written, 1 when there is no node to plan for, 2 when an option is wrong, nodes cannot be read or an object
cannot be written.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from rich.console import Console

from admission.cli.connection import connect, worded
from admission.doctor.checks.flavors import CONTROL_PLANE
from admission.doctor.report import plain
from admission.levels.level_plan import MissingLabel, Plan, plan
from admission.levels.oddities import LabelledNode
from admission.levels.sources import HOST, SOURCES
from admission.levels.tree import lines
from admission.world.documents import documents
from api.errors import InvalidObject, StowageError
from api.kube.client import Kube, PatchKind
from api.kube.resources import NODES, RESOURCE_FLAVORS, TOPOLOGIES
from api.schema import DNS_SUBDOMAIN

WRITTEN, NOTHING, NOT_WRITTEN = 0, 1, 2
_MANAGER: Final = "stowage-topology-init"
_PAGE: Final = 500
_SHOWN: Final = 50
_LONGEST_NAME: Final = 240  # a number may follow


@dataclass(frozen=True, slots=True)
class InitArguments:
    """Arguments of the command. Without `files` it reads the nodes of the cluster."""

    files: Sequence[Path] = ()
    name: str = "default"
    flavor_by: str = ""
    source: str = ""
    levels: Sequence[str] = ()
    apply: bool = False
    topology_only: bool = False
    label_nodes: bool = True
    kubeconfig: Path | None = None
    context: str | None = None


class _Meta(msgspec.Struct):
    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Node(msgspec.Struct):
    metadata: _Meta


def run(arguments: InitArguments, out: Console | None = None, err: Console | None = None) -> int:
    """Runs the command and returns its exit code."""
    out, err = out or Console(), err or Console(stderr=True)
    try:
        return asyncio.run(_run(arguments, out, err))
    except (StowageError, OSError, TimeoutError) as failed:
        err.print(f"no topology: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_WRITTEN


async def _run(arguments: InitArguments, out: Console, err: Console) -> int:
    _check(arguments)
    if arguments.files and not arguments.apply:
        return _printed(arguments, _from_files(arguments.files), out, err)[0]
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        nodes = _from_files(arguments.files) if arguments.files else await _from_cluster(kube)
        code, made = _printed(arguments, nodes, out, err)
        if arguments.apply and code == WRITTEN:
            await _write(kube, arguments, made, out)
    return code


def _printed(arguments: InitArguments, nodes: Sequence[LabelledNode], out: Console, err: Console) -> tuple[int, Plan]:
    """Prints the tree, what is odd, and the manifests unless they are applied."""
    workers = [node for node in nodes if CONTROL_PLANE not in node.labels]
    if not workers:
        why = f"all {len(nodes)} are of the control plane" if nodes else "there are none"
        err.print(f"no nodes to plan for: {why}", style="red", highlight=False, soft_wrap=True)
        return NOTHING, plan(())
    _check_labels(arguments, workers)
    made = plan(workers, arguments.name, arguments.flavor_by, arguments.source, arguments.levels)
    for line in lines(made):
        err.print(plain_line(line), markup=False, soft_wrap=True, highlight=False)
    for text in made.oddities[:_SHOWN]:
        err.print(f"odd: {plain(text)}", style="yellow", markup=False, soft_wrap=True, highlight=False)
    if len(made.oddities) > _SHOWN:
        err.print(f"odd: and {len(made.oddities) - _SHOWN} more", style="yellow", markup=False, highlight=False)
    if not made.flavors:
        text = "no flavor follows from the labels of the nodes: name one that all machines of a kind share (--flavor-by KEY)"
        err.print(text, style="red", highlight=False, soft_wrap=True)
        return NOTHING, made
    if not arguments.apply:
        out.file.write(yaml.safe_dump_all(_manifests(arguments, made), sort_keys=False))
        for missing in _node_labels(arguments, made):
            words = shlex.join(["label", "node", missing.node, f"{missing.key}={missing.value}"])
            out.file.write(f"# kubectl {plain(words)}\n")
    return WRITTEN, made


def _check(arguments: InitArguments) -> None:
    """Raises InvalidObject for a name or source that cannot be."""
    if len(arguments.name) > _LONGEST_NAME or not re.fullmatch(DNS_SUBDOMAIN, arguments.name):
        allowed = f"must be a DNS subdomain of at most {_LONGEST_NAME} characters"
        raise InvalidObject("--name", arguments.name, allowed)
    known = sorted(source.name for source in SOURCES)
    if arguments.source and arguments.source not in known:
        raise InvalidObject("--source", arguments.source, f"must be one of {', '.join(known)}")


def _check_labels(arguments: InitArguments, nodes: Sequence[LabelledNode]) -> None:
    """Raises InvalidObject if no node has a label of the source or level that the user names, as after a slip of the pen."""
    keys = {key for node in nodes for key, value in node.labels.items() if value}
    for level in arguments.levels:
        if level not in keys and level != HOST:
            raise InvalidObject("--level", level, "must be a label of at least one node")
    if any(source.name == arguments.source and keys.isdisjoint(source.keys) for source in SOURCES):
        raise InvalidObject("--source", arguments.source, "no node has a label of it")


def plain_line(line: str) -> str:
    """Returns the line with its indentation and without control characters, since values of labels are printed unchanged."""
    return f"{' ' * (len(line) - len(line.lstrip()))}{plain(line)}"


def _manifests(arguments: InitArguments, plan: Plan) -> list[dict[str, Any]]:
    if arguments.topology_only:
        return plan.topology_objects()[:1]
    return [*plan.topology_objects(), *plan.flavor_objects()]


def _node_labels(arguments: InitArguments, plan: Plan) -> Sequence[MissingLabel]:
    return plan.labels if arguments.label_nodes and not arguments.topology_only else ()


def _from_files(files: Sequence[Path]) -> list[LabelledNode]:
    """Raises Unreadable."""
    metadata = [one.object.get("metadata") or {} for one in documents(list(files)) if one.kind == NODES.kind]
    return [LabelledNode(str(meta.get("name") or ""), _labels(meta.get("labels"))) for meta in metadata]


def _labels(labels: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


async def _from_cluster(kube: Kube) -> list[LabelledNode]:
    labelled: list[LabelledNode] = []
    after: str | None = None
    decode = msgspec.json.Decoder(_Node).decode
    while True:
        page = await kube.list_raw(NODES, limit=_PAGE, continue_=after)
        nodes = (decode(raw) for raw in page.items)
        labelled += [LabelledNode(node.metadata.name, node.metadata.labels) for node in nodes]
        if not (after := page.continue_):
            return labelled


async def _write(kube: Kube, arguments: InitArguments, plan: Plan, out: Console) -> None:
    """Applies the objects, and the labels of nodes that lack a level. Raises StowageError."""
    kinds = {TOPOLOGIES.kind: TOPOLOGIES, RESOURCE_FLAVORS.kind: RESOURCE_FLAVORS}
    for obj in _manifests(arguments, plan):
        name = obj["metadata"]["name"]
        await kube.patch(kinds[obj["kind"]], name, obj, kind=PatchKind.APPLY, field_manager=_MANAGER)
        out.print(f"applied {obj['kind']} {name}", markup=False, highlight=False)
    for missing in _node_labels(arguments, plan):
        body = {"metadata": {"labels": {missing.key: missing.value}}}
        await kube.patch(NODES, missing.node, body, kind=PatchKind.MERGE)
        out.print(f"labelled Node {missing.node} {missing.key}={missing.value}", markup=False, highlight=False)
