"""Draws the occupancy of the tree at one moment as SVG or PNG, by the file's suffix (matplotlib, the extra `picture`).

One panel per flavor. Domains of the lowest level are squares, colored by their most occupied resource. Domains of one parent
share a box with its name, and each wider level is a frame around its boxes. Equal states give equal bytes of SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admission.engine.ledger.ledger import Ledger
from admission.simulation.occupancy import DomainOccupancy, FlavorOccupancy, occupancies
from admission.simulation.tables import clock
from api.errors import StowageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png")
_GAP, _HEAD = 0.5, 1.1
_COLOURS = "YlOrRd"
# inches: smallest and largest square; approximate width and height of the picture
_LEAST, _MOST, _WIDE, _TALL = 0.03, 0.4, 14.0, 10.0


class NoPicture(StowageError):
    """The picture cannot be drawn; the message says why."""


def check(path: Path) -> None:
    """Raises NoPicture if `draw` could not write this file."""
    if path.suffix not in FORMATS:
        raise NoPicture(f"{path}: the name of a picture must end in {' or '.join(FORMATS)}")
    try:
        import matplotlib  # noqa: F401  takes a second to import, which only pictures need
    except ImportError:
        raise NoPicture("matplotlib is not installed: pip install 'stowage[picture]'") from None


def draw(ledger: Ledger, moment: float, path: Path) -> None:
    """Writes the picture. Raises NoPicture (unknown suffix, no matplotlib, no flavor with a topology) or OSError."""
    check(path)
    trees = [tree for tree in occupancies(ledger) if tree.places]
    if not trees:
        raise NoPicture("no flavor has a topology with nodes in it")
    import matplotlib as mpl
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

    boxes = [_boxed(tree.places) for tree in trees]
    width, height = max(box.width for box in boxes), sum(box.height for box in boxes)
    inch = max(_LEAST, min(_MOST, _WIDE / width, _TALL / height))
    figure = Figure(
        figsize=(max(7.0, width * inch + 1.5), height * inch + 0.5 * len(boxes) + 0.8), layout="constrained"
    )
    with mpl.rc_context({"svg.hashsalt": "stowage", "svg.fonttype": "none"}):
        axes = figure.subplots(len(trees), 1, squeeze=False, height_ratios=[box.height for box in boxes])
        for (axis,), tree, box in zip(axes, trees, boxes, strict=True):
            _panel(axis, tree, box, max(2.0, min(9.0, 40 * inch)))
        colors = ScalarMappable(cmap=_COLOURS)
        colors.set_clim(0, 100)
        figure.colorbar(colors, ax=axes, label="not free, %", shrink=0.6, aspect=40)
        figure.suptitle(f"at {clock(moment)}", fontsize=10)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


@dataclass(slots=True)
class _Box:
    """A domain with its children; `x` and `y` place its lower left corner in the box around it."""

    name: str
    width: float
    height: float
    children: list[_Box]
    share: float | None = None
    x: float = 0.0
    y: float = 0.0


def _boxed(places: Sequence[DomainOccupancy], depth: int = 0) -> _Box:
    """Returns the box of these domains, which share the first `depth` values of their paths."""
    groups: dict[str, list[DomainOccupancy]] = {}
    for place in places:
        groups.setdefault(place.path[depth], []).append(place)
    lowest = len(places[0].path) - 1 == depth
    if lowest:
        children = [_Box(name, 1.0, 1.0, [], group[0].share) for name, group in groups.items()]
    else:
        children = [_boxed(group, depth + 1) for group in groups.values()]
    name = places[0].path[depth - 1] if depth else ""
    return _laid(name, children, 0.0 if lowest else _GAP)


def _laid(name: str, children: list[_Box], gap: float) -> _Box:
    """Arranges the children in rows, about twice as wide as high."""
    wide, tall = max(child.width for child in children) + gap, max(child.height for child in children) + gap
    across = max(1, min(len(children), ceil(sqrt(2 * len(children) * tall / wide))))
    rows = ceil(len(children) / across)
    for number, child in enumerate(children):
        child.x = gap / 2 + (number % across) * wide
        child.y = gap / 2 + (rows - 1 - number // across) * tall
    return _Box(name, across * wide, rows * tall + (_HEAD if name else 0.0), children)


def _panel(axis: Axes, tree: FlavorOccupancy, box: _Box, size: float) -> None:
    from matplotlib import colormaps

    axis.set_xlim(-0.2, box.width + 0.2)
    axis.set_ylim(-0.2, box.height + 0.2)
    axis.set_aspect("equal")
    axis.axis("off")
    levels = " / ".join(level.rpartition("/")[2] for level in tree.levels)
    axis.set_title(f"{tree.flavor}: {levels}", fontsize=9, loc="left")
    _paint(axis, box, 0.0, 0.0, colormaps[_COLOURS], size)


def _paint(axis: Axes, box: _Box, x: float, y: float, colours: Any, size: float) -> None:
    from matplotlib.patches import Rectangle

    if box.share is not None:
        square = Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, facecolor=colours(box.share), edgecolor="0.6", linewidth=0.3)
        square.set_gid(box.name)
        axis.add_patch(square)
        return
    if box.name:
        axis.add_patch(Rectangle((x, y), box.width, box.height, facecolor="none", edgecolor="0.4", linewidth=0.7))
        axis.text(x + box.width / 2, y + box.height - _HEAD / 2, box.name, ha="center", va="center", fontsize=size)
    for child in box.children:
        _paint(axis, child, x + child.x, y + child.y, colours, size)
