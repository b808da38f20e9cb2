"""Reads what the kustomizations in config/ install.

Only the features of kustomize that this tree uses are supported; others raise ValueError.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from api.text.manifests import read, read_one

CONFIG: Final = Path(__file__).resolve().parents[2] / "config"
FIELDS: Final = frozenset(
    {"apiVersion", "kind", "resources", "components", "patches", "configMapGenerator", "images", "namespace"}
)
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Declared:
    """An object and the kustomization that declares it, such as `manager`."""

    folder: str
    obj: Object

    @property
    def kind(self) -> str:
        return str(self.obj["kind"])

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])


def kustomization(folder: str) -> Object:
    """Returns the kustomization of a folder. Raises ValueError for a field that this module does not apply."""
    found: Object = read_one(CONFIG / folder / "kustomization.yaml")
    if unknown := found.keys() - FIELDS:
        raise ValueError(f"config/{folder}/kustomization.yaml: fields {sorted(unknown)} are not supported")
    return found


def objects(folder: str) -> list[Declared]:
    """Returns the objects of one kustomization, without those of its bases, components and generators."""
    files = (CONFIG / folder / entry for entry in kustomization(folder).get("resources", ()))
    return [Declared(folder, obj) for file in files if file.is_file() for obj in read(file)]


def bases() -> list[str]:
    """Returns the folders that config/default always installs."""
    return [Path(entry).name for entry in kustomization("default")["resources"]]


def components() -> list[str]:
    """Returns the folders that are components, by name."""
    files = CONFIG.glob("*/kustomization.yaml")
    return sorted(file.parent.name for file in files if read_one(file)["kind"] == "Component")


def patched(folder: str, declared: Declared) -> Object:
    """Returns the object with the patches of a component."""
    obj = copy.deepcopy(declared.obj)
    for entry in kustomization(folder).get("patches", ()):
        patch = read_one(CONFIG / folder / entry["path"])
        if isinstance(patch, list):
            target = entry["target"]
            if target["kind"] == declared.kind and re.fullmatch(target["name"], declared.name):
                _apply(obj, patch)
        elif (patch["kind"], patch["metadata"]["name"]) == (declared.kind, declared.name):
            obj = _merged(obj, patch)
    return obj


def _apply(obj: Object, operations: list[Object]) -> None:
    for operation in operations:
        if operation["op"] != "add":
            raise ValueError(f"operation {operation['op']} is not supported")
        *path, last = operation["path"].strip("/").split("/")
        place: Any = obj
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if isinstance(place, list):
            place.append(operation["value"])
        else:
            place[last] = operation["value"]


def _merged(old: Any, new: Any) -> Any:
    """A strategic merge patch. Lists of named items merge by name, as those of pods do."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: _merged(old[key], value) if key in old else value for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        by_name = {item["name"]: item for item in new}
        kept = [_merged(item, by_name.pop(item["name"])) if item["name"] in by_name else item for item in old]
        return [*kept, *by_name.values()]
    return new


def generated() -> Iterator[tuple[str, Object, Path]]:
    """Yields the files of generated ConfigMaps of components: folder, entry of its configMapGenerator, path."""
    for folder in components():
        for one in kustomization(folder).get("configMapGenerator", ()):
            for entry in one["files"]:
                yield folder, one, CONFIG / folder / entry.split("=")[1]
