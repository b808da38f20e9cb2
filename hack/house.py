"""`python -m hack.house [FOLDER]`: prints the measures of the house: on 2026-11-27, now, and the aim.

All are read from the syntax trees of the product (admission, api, ungater). tests/test_house.py keeps what is reached. With
`--check` (`make check`) it prints children that their package does not name, and callers in docstrings that call nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final

PRODUCT: Final = ("admission", "api", "ungater")
VAGUE: Final = frozenset({"found", "given", "made", "said", "got", "known", "one"})
"""Names that do not say what a value is."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Module:
    """A module, or the `__init__` of a package."""

    path: str
    """Relative to the checkout."""
    name: str
    """Dotted, a package's without `__init__`."""
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Reports whether it is the `__init__` of a package."""
        return self.path.endswith("__init__.py")

    @property
    def basename(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of its tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def docstring(self) -> str:
        """Its docstring, or an empty string."""
        return ast.get_docstring(self.tree) or ""

    def functions(self) -> Iterator[Function]:
        """Yields its functions, methods and lambdas."""
        return (node for node in self.nodes if isinstance(node, Function))


def read(folder: Path, tops: Collection[str] = PRODUCT) -> list[Module]:
    """Returns the modules below these folders of a checkout."""
    paths = sorted(path for top in tops for path in (folder / top).rglob("*.py"))
    return [_module(path.relative_to(folder), path.read_text("utf-8")) for path in paths]


def _module(path: Path, text: str) -> Module:
    parts = path.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(str(path), name, text, ast.parse(text))


# ---- plates: what the docstring of a package says of its children

_PLATE: Final = re.compile(r"\s*([a-z_]\w*/?(?:, [a-z_]\w*/?)*) {2,}\S")


def plate(docstring: str) -> list[str]:
    """Returns the children that a package's docstring names: `name, other/   what they are` on a line."""
    return [name for line in docstring.splitlines() if (match := _PLATE.match(line)) for name in match[1].split(", ")]


def children(modules: Sequence[Module]) -> dict[Module, set[str]]:
    """Returns the modules and packages (`name/`) of each package."""
    packages: dict[str, tuple[Module, set[str]]] = {each.name: (each, set()) for each in modules if each.is_package}
    for each in modules:
        above = each.name.rpartition(".")[0]
        if above in packages:
            packages[above][1].add(f"{each.basename}/" if each.is_package else each.basename)
    return dict(packages.values())


def unnamed(modules: Sequence[Module]) -> list[str]:
    """Returns the paths of children that the docstring of their package does not name."""
    return [
        f"{package.path.removesuffix('__init__.py')}{child}"
        for package, inside in children(modules).items()
        for child in sorted(inside - set(plate(package.docstring)))
    ]


# ---- who imports whom


def imports(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Returns the names of the modules that each module imports, wherever in it."""
    names = {each.name for each in modules}
    return {each.name: set(_imported(each.nodes, names)) for each in modules}


def _imported(nodes: Collection[ast.AST], names: Collection[str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in names:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in names else node.module


def rooms(modules: Sequence[Module], package: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Returns the children of a package, and the arrows between them: who imports whom."""
    inside = {each.name for each in modules if each.name.startswith(f"{package}.")}
    depth = package.count(".") + 2
    room = {name: ".".join(name.split(".")[:depth]) for name in inside}
    arrows = {
        (room[name], room[target])
        for name, targets in imports(modules).items()
        if name in inside
        for target in targets & inside
        if room[name] != room[target]
    }
    return set(room.values()), arrows


_CALLERS: Final = re.compile(r"\b(?:called|used|read|set|enforced|written) by ([^.;:]*)", re.IGNORECASE)
_CALLS: Final = re.compile(r"((?:`\w+`|[\w/]+!py)(?: and (?:`\w+`|[\w/]+!py))?) (?:calls?|reads?|uses?|writes?) it\b")
_FILE: Final = re.compile(r"`(\w+)`|(?:\w+/)*(\w+)!py\b")


def named_callers(docstring: str) -> set[str]:
    """Returns what the docstring of a module names as its callers: `Called by x.py.`, `x.py calls it.`"""
    text = " ".join(docstring.replace(".py", "!py").split())
    parts = [*_CALLERS.findall(text), *_CALLS.findall(text)]
    return {name or file for part in parts for name, file in _FILE.findall(part)}


def false_callers(modules: Sequence[Module]) -> list[str]:
    """Returns `path: caller` for each module that a docstring names as a caller and that does not import the module."""
    packages = {each.name for each in modules if each.is_package}
    basenames = {each.basename for each in modules}
    direct = imports(modules)
    importers: dict[str, set[str]] = defaultdict(set)
    for name, targets in direct.items():
        exported = {inner for target in targets & packages for inner in direct[target]}
        for target in targets | exported:
            importers[target].add(name.rpartition(".")[2])
    return [
        f"{each.path}: {caller}"
        for each in modules
        if not each.is_package
        for caller in sorted(named_callers(each.docstring) & basenames - importers[each.name])
    ]


# ---- names of values


def vague_parameters(modules: Sequence[Module]) -> list[str]:
    """Returns `path:line name` of each parameter that does not say what it is."""
    return [
        f"{each.path}:{parameter.lineno} {parameter.arg}"
        for each in modules
        for function in each.functions()
        for parameter in _parameters(function)
        if parameter.arg in VAGUE
    ]


def _parameters(function: Function) -> list[ast.arg]:
    arguments = function.args
    variable = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variable]


def functions_with(modules: Sequence[Module], variable: str) -> list[str]:
    """Returns `path:line` of each function that assigns the variable or has it as a parameter."""
    return [
        f"{each.path}:{function.lineno}"
        for each in modules
        if variable in each.text
        for function in each.functions()
        if not isinstance(function, ast.Lambda)
        and any(
            (isinstance(node, ast.Name) and node.id == variable and isinstance(node.ctx, ast.Store))
            or (isinstance(node, ast.arg) and node.arg == variable)
            for node in ast.walk(function)
        )
    ]  # fmt: skip


# ---- fields of values


def fields_in_docstrings(modules: Sequence[Module]) -> list[str]:
    """Returns `path:class` of each class whose docstring says what its fields are, which have no docstring below them."""
    classes = ((each.path, node) for each in modules for node in each.nodes if isinstance(node, ast.ClassDef))
    return [f"{path}:{node.name}" for path, node in classes if _tells_of_fields(node)]


def _tells_of_fields(value: ast.ClassDef) -> bool:
    """Reports whether the docstring of a value of three or more fields names two or more that have no docstring."""
    text = ast.get_docstring(value) or ""
    documented = {
        field.target.id: isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        for field, below in zip(value.body, [*value.body[1:], ast.Pass()], strict=True)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if not field.target.id.startswith("_") and "ClassVar" not in ast.unparse(field.annotation)
        if "schema(" not in ast.unparse(field.annotation)  # words of which the CRD is made
    }
    named = [name for name, there in documented.items() if not there and f"`{name}`" in text]
    return len(documented) >= 3 and len(named) >= 2


# ---- features: which files name them


@dataclass(frozen=True)
class Feature:
    """A capability."""

    name: str
    own: str
    """A pattern of the paths of its own files."""
    word: str
    """A pattern by which text names it."""
    before: int
    """The number of other files that named it on 2026-11-27."""
    aim: str = ""


_MOVES: Final = r"[./]moves\b|\bimport (?:\w+, )*moves\b|\b[Mm]overs?\b|\bMOV(?:E|ES|ING|ABLE)\w*|\bMove\w*\b"
_MOVES_OWN: Final = r"/(?:convert_)?moves(?:/|\.py)|/moving\.py|/defrag|features/__init__"
"""Its packages on each side, `stowage defrag`, and the modules of its annotations, its condition and its metrics."""
_ELASTIC: Final = r"(?i)(?<!api\.)elastic(?!.?quota|.?block|_(?:group|sigs|version))"
"""Neither elastic quotas nor AWS' volumes. A line of a package's plate goes with the module that it names."""
FEATURES: Final = (
    Feature("moves", _MOVES_OWN, _MOVES, 43, "10"),
    Feature("spare hosts", "spare", r"(?i)spare.?host", 45, "10"),
    Feature("advance reservations", "advance_reservation", r"(?i)advance.?reservation", 37, "10"),
    Feature("backfill", "backfill", r"(?i)backfill", 46, "12"),
    Feature("forecasts", "forecast", r"(?i)forecast", 23, "10"),
    Feature("elastic jobs", r"elastic|__init__", _ELASTIC, 66, "25"),
    Feature("gang groups", "gang_groups?|gang_preemption", r"(?i)gang.?group", 17),
    Feature("Sakkara", "sakkara", r"(?i)sakkara", 41),
    Feature("elastic quotas", "elastic", r"(?i)elastic.?quota", 24),
)


def naming(modules: Sequence[Module], feature: Feature) -> list[str]:
    """Returns the files outside the feature's own that name it."""
    own, word = re.compile(feature.own), re.compile(feature.word)
    return [each.path for each in modules if not own.search(each.path) and word.search(each.text)]


# ---- one of each

_HOLD: Final = re.compile(r"(?:^|_)(?:held|holding|holds?|kept|spares?|reserv\w*)(?:_|$)")
_SHELL: Final = ("admission.engine.", "admission.controllers.")
_METRICS: Final = {"Counter", "Gauge", "Histogram"}
_SOME_WATCHED: Final = {
    "limit_ranges",
    "runtime_classes",
    "csi_nodes",
    "resource_slices",
    "device_classes",
    "local_queues",
}
"""Fields of the watched kinds, of which a list of all has each."""


def holds(modules: Sequence[Module]) -> list[str]:
    """Returns the modules that hold capacity for somebody, by their names. The plate of a package holds nothing."""
    rooms = [each for each in modules if each.name.startswith(_SHELL) and not each.path.endswith("__init__.py")]
    return [each.path for each in rooms if _HOLD.search(each.basename)]


def status_writers(modules: Sequence[Module]) -> list[str]:
    """Returns the modules that write the status of Workloads."""
    return [each.path for each in modules if any(_writes_status(node) for node in each.nodes)]


def _writes_status(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    by_hand = any(each.arg == "subresource" and ast.unparse(each.value) == "'status'" for each in node.keywords)
    return called in {"patch_status", "patch_unless_gone"} or (by_hand and ast.unparse(node.args[0]) == "WORKLOADS")


def watched_lists(modules: Sequence[Module]) -> list[str]:
    """Returns `path:line` of each statement that lists all watched kinds."""
    return [
        f"{each.path}:{statement.lineno}"
        for each in modules
        if "csi_nodes" in each.text
        for statement in each.tree.body
        if set(_names(statement)) >= _SOME_WATCHED
    ]


def _names(statement: ast.stmt) -> Iterator[object]:
    """Yields what a statement declares or passes by name."""
    for node in ast.walk(statement):
        if isinstance(node, ast.AnnAssign):
            yield getattr(node.target, "id", None)
        elif isinstance(node, ast.Assign):
            yield from (getattr(target, "id", None) for target in node.targets)
        elif isinstance(node, ast.keyword):
            yield node.arg
        elif isinstance(node, ast.Constant):
            yield node.value


def metrics_elsewhere(modules: Sequence[Module]) -> list[str]:
    """Returns the modules that declare metrics outside a folder `metrics` or a module of that name."""
    return [
        each.path
        for each in modules
        if "/metrics/" not in each.path and each.basename != "metrics"
        for node in each.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        if getattr(node.value.func, "id", "") in _METRICS
    ]


# ---- size


def lengths(modules: Sequence[Module]) -> dict[str, int]:
    """Returns the number of lines of each function, from `def` to its end, by `path:name`."""
    return {
        f"{each.path}:{function.name}": (function.end_lineno or function.lineno) - function.lineno + 1
        for each in modules
        for function in each.functions()
        if not isinstance(function, ast.Lambda)
    }


def package_sizes(modules: Sequence[Module]) -> Counter[str]:
    """Returns the number of modules of each package."""
    return Counter(each.name.rpartition(".")[0] for each in modules if not each.is_package)


def long_modules(modules: Sequence[Module], limit: int = 500) -> list[str]:
    """Returns the modules that have more lines."""
    return [each.path for each in modules if each.text.count("\n") > limit]


def repeated_basenames(modules: Sequence[Module]) -> list[str]:
    """Returns the basenames that several modules have."""
    counts = Counter(each.basename for each in modules if not each.is_package)
    return sorted(name for name, count in counts.items() if count > 1)


# ---- the table


@dataclass(frozen=True)
class Measure:
    """A row of the table."""

    name: str
    before: int
    """On 2026-11-27, at commit 21db77fb, by this script."""
    now: Callable[[Sequence[Module]], int]
    aim: str = ""


def _count(measured: Callable[[Sequence[Module]], Collection[object]]) -> Callable[[Sequence[Module]], int]:
    return lambda modules: len(measured(modules))


def _named(feature: Feature) -> Measure:
    return Measure(
        f"files outside its own that name {feature.name}",
        feature.before,
        lambda modules: len(naming(modules, feature)),
        feature.aim,
    )


MEASURES: Final = (
    *(_named(feature) for feature in FEATURES),
    Measure("rooms of the controllers", 76, lambda modules: len(rooms(modules, "admission.controllers")[0]), "16"),
    Measure("arrows between them", 213, lambda modules: len(rooms(modules, "admission.controllers")[1]), "45"),
    Measure("modules of the largest package", 69, lambda modules: max(package_sizes(modules).values()), "21"),
    Measure("children that their package does not name", 678, _count(unnamed), "0"),
    Measure("callers in docstrings that call nothing", 23, _count(false_callers), "0"),
    Measure("functions with a variable `found`", 798, lambda modules: len(functions_with(modules, "found")), "150"),
    Measure("parameters that do not say what they are", 411, _count(vague_parameters), "0"),
    Measure("values whose fields are documented at the class", 199, _count(fields_in_docstrings), "0"),
    Measure("modules that hold capacity", 22, _count(holds), "12"),
    Measure("modules that write a Workload's status", 14, _count(status_writers), "6"),
    Measure("lists of the watched kinds", 4, _count(watched_lists), "1"),
    Measure("modules of metrics outside metrics/", 9, _count(metrics_elsewhere), "0"),
    Measure("basenames of several modules", 94, _count(repeated_basenames)),
    Measure("modules of more than 500 lines", 1, _count(long_modules), "0"),
    Measure("lines of the longest function", 69, lambda modules: max(lengths(modules).values())),
    Measure("lines of a function, median", 6, lambda modules: int(median(lengths(modules).values()))),
    Measure("functions", 7176, lambda modules: len(lengths(modules))),
    Measure("modules", 754, len),
    Measure("lines", 102_597, lambda modules: sum(each.text.count("\n") for each in modules), "92,000"),
)


def table(modules: Sequence[Module]) -> str:
    """Returns the measures as a Markdown table."""
    rows = [("measure", "2026-11-27", "now", "aim"), ("---",) * 4]
    rows += [(each.name, f"{each.before:,}", f"{each.now(modules):,}", each.aim) for each in MEASURES]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: Sequence[str]) -> int:
    """Prints the table; with `--check` what docstrings say that is not so, which is an error."""
    modules = read(Path(next((each for each in arguments if not each.startswith("-")), ".")))
    if "--check" not in arguments:
        print(table(modules))
        return 0
    wrong = [f"{child} is not named by its package" for child in unnamed(modules)]
    wrong += [f"{each} does not import it" for each in false_callers(modules)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
