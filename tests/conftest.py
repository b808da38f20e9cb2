"""What holds for all suites: their last lines, and how `make test` deals them out to its workers (pytest-xdist)."""

from __future__ import annotations

import gc
import json
import os
import shlex
import ssl
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests import budgets
from tests.conformance.summary import pytest_terminal_summary
from tests.dealing import SHARING, STAGES, ByFileOrGroup, is_below
from tests.forked_workers import Forks

if TYPE_CHECKING:
    from execnet import XSpec
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

__all__ = ["pytest_terminal_summary"]

GROUPS = "stowage_groups"
"""The worker input that names the file in which the workers write the group of each test that has one.

xdist appends the group to the node id, which pytest 9.2 no longer lets it change.
"""
_FILE = pytest.StashKey[Path]()

budgets.load_usual()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--shuffle SEED`: files, and the tests of each, in another order, to find tests that depend on those before them."""
    parser.addoption("--shuffle", type=int, help="shuffle files and the tests of each; the seed repeats an order")


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Iterator[None]:
    """Before xdist starts its workers."""
    with tempfile.NamedTemporaryFile(prefix="stowage-groups-", delete=False) as made:
        session.config.stash[_FILE] = Path(made.name)
    return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[_FILE].unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[XSpec]) -> None:
    if config.getvalue("dist") == "loadgroup":
        forks = Forks(["-m", config.option.markexpr, *config.args])
        config.add_cleanup(forks.close)
        python = shlex.join(forks.command)
        specs[:] = [type(spec)(f"{spec}//python={python}//id={spec.id}") for spec in specs]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[GROUPS] = str(node.config.stash[_FILE])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFileOrGroup | None:
    if config.getvalue("dist") != "loadgroup":
        return None

    def groups() -> dict[str, str]:
        found: dict[str, str] = json.loads(config.stash[_FILE].read_text())
        return found

    return ByFileOrGroup(config, log, groups)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collection makes objects that all live on: to look for garbage among them takes a fifth of its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where no stage is asked for, their suites are not even imported: they are a third of all."""
    return True if config.option.markexpr.endswith("not stage") and collection_path in STAGES else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (seed := config.getoption("shuffle")) is not None:
        random = Random(seed)
        places = {path: random.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (places[item.path], random.random()))
    for item in items:
        if is_below(item.path, STAGES):
            item.add_marker(pytest.mark.stage)
        if is_below(item.path, SHARING):
            server = "real" if item.get_closest_marker("e2e") else "embedded"
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{server}"))


@pytest.fixture(scope="session", autouse=True)
def no_system_certificates() -> Iterator[None]:
    """No test trusts the machine's own CAs, and each client that speaks no TLS would load them: 30 ms of a core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_default_certs", lambda self, purpose=ssl.Purpose.SERVER_AUTH: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def process_as_found() -> Iterator[None]:
    """What a module leaves in this process is gone after it: declared kinds, the views of a controller, objects of a command.

    A process of the product serves one cluster; a worker serves one after the other, in whatever order.
    """
    from admission.integrations.declared.parts import PARTS
    from admission.integrations.declared.referenced import REFERENCED
    from admission.integrations.registry import KINDS
    from admission.integrations.sets.sets import SCALED

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PARTS, "_find", None)
        patch.setattr(REFERENCED, "_views", {})
        yield
    for registry in (KINDS, SCALED):
        for adapter in registry.declared():
            registry.withdraw((adapter.resource.group, adapter.resource.kind))


@pytest.hookimpl(tryfirst=True)  # before xdist tells what was collected
def pytest_collection_finish(session: pytest.Session) -> None:
    """What collection made lives as long as the tests: no later garbage collection has to walk through it again.

    Its garbage stays with it: to look for that takes 0.3 seconds of each worker.
    """
    _write_groups(session)
    gc.freeze()


def _write_groups(session: pytest.Session) -> None:
    """Each worker writes the same; the file is never seen half-written."""
    target = getattr(session.config, "workerinput", {}).get(GROUPS)
    if target is None:
        return
    marks = ((item.nodeid, item.get_closest_marker("xdist_group")) for item in session.items)
    groups = {nodeid: mark.args[0] for nodeid, mark in marks if mark is not None}
    part = Path(f"{target}.{os.getpid()}")
    part.write_text(json.dumps(groups))
    part.replace(target)
