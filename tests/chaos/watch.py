"""Feeds an auditor from the API server: a watch of each kind, and a sample every 100 ms, in threads of their own.

The client is the one of hack/controlplane, not the product's.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from hack.controlplane.api import Api, Object
from hack.controlplane.errors import RequestError
from tests.chaos.auditor import Auditor

PATHS: Final[Mapping[str, str]] = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Workload": "/apis/kueue.x-k8s.io/v1beta2/workloads",
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "LocalQueue": "/apis/kueue.x-k8s.io/v1beta2/localqueues",
}
PERIOD: Final = 0.1
"""Seconds between two samples."""
_WATCH_SECONDS: Final = 5
_LOST: Final = (OSError, http.client.HTTPException, RequestError, ValueError)
"""What a client sees while the API server restarts; ValueError is a line that was cut."""


class Watching:
    """Keeps the auditor's copies up to date while it runs; `longest` is the longest time between two samples (seconds)."""

    def __init__(self, api: Api, auditor: Auditor) -> None:
        self.auditor, self.longest = auditor, 0.0
        self._api, self._lock, self._over = api, threading.Lock(), threading.Event()
        self._seen = {kind: threading.Event() for kind in PATHS}

    @contextmanager
    def running(self) -> Iterator[Auditor]:
        """Enters when all that there was is seen. A sample that fails fails the block's end."""
        threads = [threading.Thread(target=self._follow, args=each, daemon=True) for each in PATHS.items()]
        sampler = threading.Thread(target=self._sample, daemon=True)
        for thread in threads:
            thread.start()
        for seen in self._seen.values():
            assert seen.wait(60), "the API server does not answer"
        sampler.start()
        try:
            yield self.auditor
        finally:
            self._over.set()
            for thread in (sampler, *threads):
                thread.join(2 * _WATCH_SECONDS)

    def unfinished(self) -> list[str]:
        """As Auditor.unfinished, at this moment."""
        with self._lock:
            return self.auditor.unfinished()

    def _sample(self) -> None:
        before = time.monotonic()
        while not self._over.wait(PERIOD):
            now = time.monotonic()
            self.longest, before = max(self.longest, now - before), now
            with self._lock:
                try:
                    self.auditor.sample(now)
                except Exception as error:  # noqa: BLE001 - an object that it cannot read is a finding
                    self.auditor.findings.append(f"the auditor failed: {error!r}")
                    return

    def _follow(self, kind: str, path: str) -> None:
        version = ""
        while not self._over.is_set():
            try:
                version = self._watch(kind, path, version) if version else self._list(kind, path)
            except _LOST:
                version = ""
                self._over.wait(PERIOD)

    def _list(self, kind: str, path: str) -> str:
        found = self._api.get(path)
        items = {_key(item): item for item in found["items"]}
        with self._lock:
            for gone in [obj for key, obj in self.auditor.copies(kind).items() if key not in items]:
                self.auditor.see(kind, gone, time.monotonic(), gone=True)
            for item in items.values():
                self.auditor.see(kind, item, time.monotonic())
        self._seen[kind].set()
        return str(found["metadata"]["resourceVersion"])

    def _watch(self, kind: str, path: str, version: str) -> str:
        query = f"?watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}&resourceVersion={version}"
        for event in self._api.stream(path + query):
            obj: Object = event["object"]
            if event["type"] == "ERROR":
                return ""
            if event["type"] != "BOOKMARK":
                with self._lock:
                    self.auditor.see(kind, obj, time.monotonic(), gone=event["type"] == "DELETED")
            version = obj["metadata"]["resourceVersion"]
        return version


def _key(obj: Object) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
