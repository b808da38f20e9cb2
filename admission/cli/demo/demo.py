"""`stowage demo`: a small datacenter on the embedded API server, the three processes, and jobs with expected outcomes.

Submits the jobs of story.py one after the other, waits for the expected state of each, and finally for the waiting job to
start in place of the finished one. It reads and writes through the API server only, as a user would.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from admission.cli.demo.display import Display
from admission.cli.demo.observe import JobState, JobView, observe
from admission.cli.demo.story import (
    FOLLOWS,
    LEAVES,
    NAMESPACE,
    NEXT,
    AwaitedState,
    Manifest,
    StoryJob,
    context,
    manifest,
    story,
)
from admission.cli.local_cluster.embedded import embedded
from admission.cli.local_cluster.processes import ProcessFailed, StowageProcesses
from api.embedded.workers.kubelet import RUN_FOR
from api.errors import StowageError
from api.kube.client import Kube, PatchKind
from api.kube.resources import CLUSTER_QUEUES, PODS, Resource

_POLL = 0.2
_LOG_LINES = 15
_OF_JOB = "batch.kubernetes.io/job-name"
Views = dict[str, JobView]


class StoryFailed(RuntimeError):
    """A job did not reach its expected state in time; the message names the state."""


@dataclass(frozen=True, slots=True)
class StoryResult:
    """The waiting job's view while it waited, and all jobs' views at the end."""

    waiting: JobView
    final: Views


async def play(
    console: Console,
    jobs: Sequence[StoryJob] | None = None,
    *,
    deadline: float = 60.0,
    pace: float = 0.0,
    page: bool = False,
) -> StoryResult:
    """Runs the whole demo and returns its result. `pace` is a pause in seconds after each job.

    With `page` it serves the dashboard meanwhile, and does not return until it is interrupted.

    Raises StoryFailed after `deadline` seconds, and ProcessFailed if a process does not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="stowage-demo-") as folder, Display(console) as display:
        display.say("starting the embedded API server, its workers, and webhook, controller and ungater")
        async with embedded(Path(folder)) as cluster, contextlib.AsyncExitStack() as stack:
            if page:
                # Imported late: every command imports this module, and few serve a page.
                from admission.dashboard.app import serving_locally
                from admission.settings import AdmissionSettings

                address, _ = await stack.enter_async_context(serving_locally(cluster.kube, AdmissionSettings()))
                display.say(f"the page: {address}")
            player = StoryPlayer(cluster.kube, display, pace)
            try:
                async with asyncio.timeout(deadline):
                    outcome = await player.play(jobs or story())
                    if page:
                        await player.submit(NEXT)
            except TimeoutError:
                why = f"not within {deadline:.0f} s: {player.awaited}\n{_logs(cluster.processes)}"
                raise StoryFailed(why) from None
            if page:
                display.say(f"the cluster stays until Ctrl-C: {address}")
                display.say(f"ask it: stowage explain {NAMESPACE}/{NEXT.name} --kubeconfig {cluster.kubeconfig}")
                await asyncio.Event().wait()
        display.finish(outcome.final)
        return outcome


class StoryPlayer:
    """Submits the jobs and checks their outcomes. `awaited` describes the state that it waits for."""

    def __init__(self, kube: Kube, display: Display, pace: float) -> None:
        self._kube, self._display, self._pace = kube, display, pace
        self._submitted: list[StoryJob] = []
        self.awaited = ""

    async def play(self, jobs: Sequence[StoryJob]) -> StoryResult:
        """Creates the cluster's objects, submits the jobs and returns the result. Raises StoryFailed."""
        await self._build()
        waiting = None
        for job in jobs:
            views = await self.submit(job)
            if job.outcome is AwaitedState.WAITING:
                waiting = views[job.name]
                await self._let_end()
            await asyncio.sleep(self._pace)
        await self._until(f"{LEAVES} has finished", lambda views: views[LEAVES].state is JobState.FINISHED)
        final = await self._until(f"{FOLLOWS} runs", lambda views: views[FOLLOWS].state is JobState.RUNNING)
        if waiting is None:
            raise StoryFailed("no job of this story waits")
        if torn := [name for name, view in final.items() if not view.keeps_requirement]:
            raise StoryFailed(f"pods of one pod set are not in one rack, though they must be: {', '.join(torn)}")
        return StoryResult(waiting, final)

    async def _build(self) -> None:
        for resource, obj in context():
            await self._create(resource, obj)
        self.awaited = "the ClusterQueue is active"
        while not await self._active():  # noqa: ASYNC110  another process makes it active
            await asyncio.sleep(_POLL)
        self._display.say("nodes, topology, flavor and queues are there")

    async def _create(self, resource: Resource, obj: Manifest) -> None:
        await self._kube.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **obj})

    async def _active(self) -> bool:
        queues = (await self._kube.list(CLUSTER_QUEUES)).items
        conditions = [item for queue in queues for item in queue.get("status", {}).get("conditions") or ()]
        return any(item["type"] == "Active" and item["status"] == "True" for item in conditions)

    async def submit(self, job: StoryJob) -> Views:
        """Creates a job, and returns all jobs' views once it is in the state that the story expects of it."""
        self._display.say(f"{job.name}: {job.pods} pods, {job.topology_text}")
        await self._create(*manifest(job))
        self._submitted.append(job)
        wanted = JobState.RUNNING if job.outcome is AwaitedState.RUNNING else JobState.WAITING
        return await self._until(f"{job.name} {job.outcome}", lambda views: views[job.name].state is wanted)

    async def _let_end(self) -> None:
        """Tells the stand-in kubelets how long pods run once a job waits: on a slow machine the pods might end earlier."""
        for job in self._submitted:
            if job.run_for:
                body = {"metadata": {"annotations": {RUN_FOR: job.run_for}}}
                for pod in (await self._kube.list(PODS, NAMESPACE, label_selector=f"{_OF_JOB}={job.name}")).items:
                    await self._kube.patch(PODS, pod["metadata"]["name"], body, NAMESPACE, kind=PatchKind.MERGE)

    async def _until(self, what: str, true: Callable[[Views], bool]) -> Views:
        self.awaited = what
        while True:
            views = await observe(self._kube, self._submitted)
            self._display.show(views)
            if true(views):
                return views
            await asyncio.sleep(_POLL)


def _logs(processes: StowageProcesses) -> str:
    tails = ((name, child.tail().splitlines()[-_LOG_LINES:]) for name, child in processes.children.items())
    return "\n".join(f"--- {name}\n" + "\n".join(lines) for name, lines in tails)


async def _until_terminated(played: Awaitable[StoryResult]) -> StoryResult:
    """Returns the result. SIGTERM cancels the story, as Ctrl-C does, so that its processes end and its folder is removed."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await played


def run(deadline: float, pace: float, *, page: bool = False) -> int:
    """Runs the command and returns its exit code: 0 if every job reached its expected state."""
    console = Console()
    try:
        outcome = asyncio.run(_until_terminated(play(console, deadline=deadline, pace=pace, page=page)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except (StoryFailed, StowageError, ProcessFailed) as failed:
        Console(stderr=True).print(f"the demo failed: {failed}", style="red", markup=False, soft_wrap=True)
        return 1
    console.print(f"\n{FOLLOWS} had to wait: {outcome.waiting.message}", markup=False, soft_wrap=True)
    console.print(f"and was admitted when {LEAVES} had finished.", markup=False)
    return 0
