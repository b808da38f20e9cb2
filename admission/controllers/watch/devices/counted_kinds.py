"""Which kinds of devices are counted. No IO.

Any user can request kinds, and each requires an evaluation of every device, so their number is bounded: in all, and for the
templates of one namespace, so that no namespace takes the places of the others. A kind without users leaves when another one
needs its place; until then it is kept, since the next job of a series requests the same.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from admission.controllers.watch.devices.requests import CannotCount, DeviceKind

MOST_KINDS: Final = 64
"""The maximum number of counted kinds."""
MOST_OF_NAMESPACE: Final = 16
"""The maximum number of kinds that the templates of one namespace add."""


class TooManyKinds(CannotCount):
    """The kind is not counted because of the bounds."""


class CountedKinds:
    """The counted kinds, and by which templates they were requested.

    `in_use` reports whether unfinished Workloads or pods have devices of the kind by the template of that key.
    """

    def __init__(self, in_use: Callable[[DeviceKind, str], bool]) -> None:
        self._in_use = in_use
        self._templates: dict[DeviceKind, dict[str, dict[str, None]]] = {}  # by namespace
        self._added: Counter[tuple[DeviceKind, str]] = Counter()

    def __contains__(self, kind: object) -> bool:
        return kind in self._templates

    def __iter__(self) -> Iterator[DeviceKind]:
        return iter(self._templates)

    def __len__(self) -> int:
        return len(self._templates)

    def add(self, requested: Mapping[str, Iterable[DeviceKind]]) -> tuple[bool, list[DeviceKind]]:
        """Counts the kinds that these templates (by key) request. Returns whether one is new, and the kinds that left for it.

        Raises TooManyKinds.
        """
        new = {kind: key for key, kinds in requested.items() for kind in kinds if kind not in self._templates}
        left = self._make_room(new) if new else []
        for key, kinds in requested.items():
            for kind in kinds:
                self._note(kind, key)
        return bool(new), left

    def _note(self, kind: DeviceKind, key: str) -> None:
        """Notes the template. Each job may bring its own: those without users are forgotten when half as many have come."""
        namespace = _namespace(key)
        keys, at = self._templates.setdefault(kind, {}).setdefault(namespace, {}), (kind, namespace)
        if key in keys:
            return
        keys[key] = None
        self._added[at] += 1
        if self._added[at] > max(MOST_KINDS, len(keys) // 2):
            self._added[at] = 0
            for each in [each for each in keys if each != key and not self._in_use(kind, each)]:
                del keys[each]

    def _make_room(self, new: Mapping[DeviceKind, str]) -> list[DeviceKind]:
        if self._excess(new) is None:
            return []
        left = self._drop_unused()
        if (excess := self._excess(new)) is not None:
            raise TooManyKinds(f"{excess}: {next(iter(new)).name} is not counted until others have no users")
        return left

    def _excess(self, new: Mapping[DeviceKind, str]) -> str | None:
        """Returns which bound the new kinds would exceed, or None."""
        for namespace in dict.fromkeys(map(_namespace, new.values())):
            known = sum(namespace in namespaces for namespaces in self._templates.values())
            if known + sum(_namespace(key) == namespace for key in new.values()) > MOST_OF_NAMESPACE:
                return f"more than {MOST_OF_NAMESPACE} kinds of devices are asked for in namespace {namespace}"
        if len(self._templates) + len(new) > MOST_KINDS:
            return f"more than {MOST_KINDS} kinds of devices are asked for"
        return None

    def _drop_unused(self) -> list[DeviceKind]:
        """Forgets kinds without users; returns them. Of each kind it looks for one user in each namespace."""
        for kind, namespaces in self._templates.items():
            for namespace, keys in list(namespaces.items()):
                for key in list(itertools.takewhile(partial(self._is_unused, kind), keys)):
                    del keys[key]
                if not keys:
                    del namespaces[namespace], self._added[kind, namespace]
        left = [kind for kind, namespaces in self._templates.items() if not namespaces]
        for kind in left:
            del self._templates[kind]
        return left

    def _is_unused(self, kind: DeviceKind, key: str) -> bool:
        return not self._in_use(kind, key)


def _namespace(template: str) -> str:
    return template.partition("/")[0]
