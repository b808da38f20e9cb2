"""One control plane: its files, its processes, and access for its users. The commands and the fixtures start it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.controlplane import build, flags, jobset, kubeconfig, lws, nodes, options, processes
from hack.controlplane.api import Api, Object
from hack.controlplane.build import Tools
from hack.controlplane.errors import ControlPlaneError
from hack.controlplane.jobset import establish
from hack.controlplane.operators import CRDS, OPERATORS
from hack.controlplane.options import ClusterOptions, ClusterPaths
from hack.controlplane.pki import Authority

_ALL_ADDRESSES = ("127.0.0.1", "10.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_MASTERS = ("system:masters",)
STATE = "state.json"


class ControlPlane:
    """A cluster in `folder` (created if missing; for one cluster at a time). Blocking; also a context manager.

    After start: `kubeconfig` (path, cluster admin), `server` (URL), `api` (a small blocking client as admin), `authority`
    (issues further certificates), `times` (seconds until each server was ready). Raises ControlPlaneError with the end of
    the log.
    """

    def __init__(
        self,
        folder: Path,
        chosen: ClusterOptions | None = None,
        tools: Tools | None = None,
        *,
        die_with_parent: bool = True,
    ) -> None:
        self.folder = folder.resolve()
        self.options = chosen or ClusterOptions()
        self.site = options.site(self.folder, self.options)
        self.server = self.site.server
        self.kubeconfig = self.site.kubeconfig("admin")
        self.times: dict[str, float] = {}
        self._tools = tools
        self._processes = processes.ServerProcesses(self.folder, die_with_parent=die_with_parent)
        self._began = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- starting and stopping

    def start(self) -> None:
        """Starts all servers and returns when they are ready, webhooks included. Stops them if one fails."""
        self._tools = self._tools or build.ensure()
        self._began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._make_credentials()
            self._start_servers(self._tools)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops every server and deletes etcd's data; logs and credentials stay in the folder."""
        self._processes.stop()
        shutil.rmtree(self.site.etcd_data, ignore_errors=True)
        (self.folder / STATE).unlink(missing_ok=True)

    def end_apiserver(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stops the API server; its clients and etcd keep running."""
        self._processes.end("apiserver", number)

    def start_apiserver(self) -> None:
        """Starts the API server again on the same port, without waiting for readiness. Call it from the starting thread."""
        self._spawn("apiserver", "kube-apiserver", flags.apiserver)

    def apiserver_ready(self) -> None:
        """Waits until the API server is ready."""
        self._processes.wait_ready("apiserver", f"{self.server}/readyz", self._context)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Stops a server's process (SIGSTOP) while the block runs: `etcd`, `apiserver`, `scheduler`, ..."""
        self._processes.send_signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes.send_signal(name, signal.SIGCONT)

    def logs(self, lines: int = 30) -> str:
        """Returns the ends of all logs."""
        return "\n".join(processes.tail(log, lines) for log in sorted(self.folder.glob("*.log")))

    # ---- for users of the cluster

    def service_account(self, namespace: str, name: str, seconds: int = 86400) -> Path:
        """Returns a kubeconfig with a token of an existing ServiceAccount, and so with exactly its rights."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        token: str = self.api.create(path, request)["status"]["token"]
        target = self.folder / f"serviceaccount-{namespace}-{name}.kubeconfig"
        return kubeconfig.write(
            target, self.server, self.authority.certificate, kubeconfig.token_user(token), namespace
        )

    def user(self, name: str, groups: tuple[str, ...] = ()) -> Path:
        """Returns a kubeconfig with a user's client certificate; rights come from `groups` alone."""
        credentials = kubeconfig.certificate_user(self.authority.client(f"user-{name}", name, groups))
        return kubeconfig.write(
            self.folder / f"user-{name}.kubeconfig", self.server, self.authority.certificate, credentials
        )

    def kubectl(self, *args: str, stdin: str | None = None, seconds: float = 120.0) -> str:
        """Runs kubectl as admin and returns its stdout. Raises ControlPlaneError with its stderr."""
        done = self.try_kubectl(*args, stdin=stdin, seconds=seconds)
        if done.returncode:
            raise ControlPlaneError(f"kubectl {' '.join(args)}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def try_kubectl(
        self, *args: str, stdin: str | None = None, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as admin and returns the completed process, also after an error."""
        command = [str(self._built().program("kubectl")), f"--cache-dir={self.folder / 'kubectl-cache'}", *args]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )

    def add_nodes(self, items: Iterable[Object], *, wait: bool = True) -> None:
        """Creates Node objects (from nodes.node) and waits until pods may be scheduled there."""
        nodes.add_nodes(self.api, items, wait=wait)

    # ---- steps of the start

    def _make_credentials(self) -> None:
        self.authority = Authority(self.folder / "pki")
        self.authority.signing_key("service-accounts")
        self.authority.serving("apiserver", "kube-apiserver", _ALL_ADDRESSES)
        # A different CA from that of users: a client certificate of a user must not allow naming another user in a header.
        Authority(self.folder / "pki" / "front-proxy").client("client", "front-proxy-client")
        admin = self.authority.client("admin", "admin", _MASTERS)
        self._write_kubeconfig("admin", kubeconfig.certificate_user(admin))
        for name in ("controller-manager", "scheduler"):
            pair = self.authority.serving(name, f"system:kube-{name}")
            self._write_kubeconfig(name, kubeconfig.certificate_user(pair))
        for name in ("kwok", "jobset", "lws", *self.options.operators):
            self._write_kubeconfig(
                name, kubeconfig.certificate_user(self.authority.client(f"{name}-client", name, _MASTERS))
            )
        self._context = ssl.create_default_context(cafile=self.authority.certificate)
        self._context.load_cert_chain(admin.certificate, admin.key)
        self.api = Api(self.server, self._context)
        self._note("credentials")

    def _write_kubeconfig(self, name: str, user: dict[str, str]) -> None:
        kubeconfig.write(self.site.kubeconfig(name), self.server, self.authority.certificate, user)

    def _start_servers(self, tools: Tools) -> None:
        ports = self.site.ports
        self._spawn("etcd", "etcd", flags.etcd)
        self._spawn("apiserver", "kube-apiserver", flags.apiserver)
        self._ready("apiserver", f"{self.server}/readyz")
        if self.options.controller_manager:
            self._spawn("controller-manager", "kube-controller-manager", flags.controller_manager)
        if self.options.scheduler:
            (self.folder / "scheduler.json").write_text(json.dumps(flags.scheduler_config(self.site)))
            self._spawn("scheduler", "kube-scheduler", flags.scheduler)
        if self.options.kwok:
            # HOME: otherwise kwok would also read the user's ~/.kwok
            self._spawn("kwok", "kwok", flags.kwok, {"HOME": str(self.folder)})
        if self.options.jobset:
            self._start_jobset(tools)
        if self.options.lws:
            self._start_lws()
        for name in self.options.operators:
            self._start_operator(name)
        if self.options.controller_manager:
            self._ready("controller-manager", f"https://127.0.0.1:{ports.controller_manager}/healthz")
        if self.options.scheduler:
            self._ready("scheduler", f"https://127.0.0.1:{ports.scheduler}/readyz")
        if self.options.kwok:
            self._ready("kwok", f"http://127.0.0.1:{ports.kwok}/healthz")
        if self.options.jobset:
            self._ready("jobset", f"http://127.0.0.1:{ports.jobset_health}/readyz")
            jobset.probe(self.api)
        if self.options.lws:
            self._ready("lws", f"http://127.0.0.1:{ports.lws_health}/readyz")
            lws.probe(self.api)
        for name in self.options.operators:
            self._ready(name, OPERATORS[name].health(self.site.operators[name]))
        self._note("total")

    def _start_jobset(self, tools: Tools) -> None:
        jobset.prepare(self.api, self.site, self.authority, tools)
        self._spawn("jobset", "jobset", flags.jobset)
        jobset.register(self.api, self.site, self.authority.certificate.read_bytes(), tools)

    def _start_lws(self) -> None:
        tools = build.ensure(recipe=lws.RECIPE)
        lws.prepare(self.api, self.site, self.authority, tools)
        self._start_program("lws", tools.program(lws.PROGRAM), flags.lws)
        lws.register(self.api, self.site, self.authority.certificate.read_bytes(), tools)

    def _start_operator(self, name: str) -> None:
        operator, ports = OPERATORS[name], self.site.operators[name]
        tools = build.ensure(recipe=operator.recipe)
        for crd in tools.objects(CRDS):
            establish(self.api, crd)
        (self.folder / name).mkdir(exist_ok=True)
        self.authority.serving(name, f"{name}-webhook")
        operator.prepare(self.api, self.site, ports)
        self._start_program(
            name,
            tools.program(name),
            lambda site, _: operator.arguments(site, ports),
            operator.variables(self.site),
        )

    def _spawn(
        self,
        name: str,
        program: str,
        argv: Callable[[ClusterPaths, ClusterOptions], list[str]],
        env: dict[str, str] | None = None,
    ) -> None:
        self._start_program(name, self._built().program(program), argv, env)

    def _start_program(
        self,
        name: str,
        program: Path,
        argv: Callable[[ClusterPaths, ClusterOptions], list[str]],
        env: dict[str, str] | None = None,
    ) -> None:
        settings = {"GOGC": str(self.options.gogc)} if self.options.gogc else {}
        self._processes.spawn(name, program, argv(self.site, self.options), {**settings, **(env or {})})
        self._save()

    def _ready(self, name: str, url: str) -> None:
        self._processes.wait_ready(name, url, self._context)
        self._note(name)

    def _note(self, name: str) -> None:
        self.times[name] = round(time.monotonic() - self._began, 2)
        self._save()

    def _save(self) -> None:
        """Writes the state file for `down`, `ps` and benchmarks: `pids` is a list of [name, pid]."""
        state = {
            "pids": self._processes.pids(),
            "etcd_data": str(self.site.etcd_data),
            "times": self.times,
            "kubeconfig": str(self.kubeconfig),
        }
        (self.folder / STATE).write_text(json.dumps(state, indent=1))

    def _built(self) -> Tools:
        if self._tools is None:
            raise ControlPlaneError("the cluster was not started")
        return self._tools
