"""Draws a record of a grid: one panel for each head count and page size.

Drawn with Pillow, which the development environment has anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from benchmarks.cases import Case
from benchmarks.prefill_cases import PrefillCase
from benchmarks.results import Results, Row

# Told apart by people with any common kind of colour vision (Okabe and Ito); ours is the black one.
_COLORS = ("#000000", "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
_GRID, _TEXT, _PAPER = "#DDDDDD", "#333333", "#FFFFFF"

_OVERSAMPLING = 2
"""Everything is drawn larger and scaled down: Pillow draws lines without smoothing."""
_PANEL_W, _PANEL_H = 380, 230
_LEFT, _TOP, _BOTTOM, _GAP = 46, 64, 40, 42
_FULL_SCALE = 1.1
"""Upper end of the vertical axis, as a fraction of the copy bandwidth: reading alone can beat a copy."""

_Point = tuple[float, float]


@dataclass(frozen=True)
class _Place:
    """Where a cell stands in the plot."""

    heads: tuple[int, int]
    page: int
    group: str
    """Cells whose points are joined, named below them."""
    label: str
    order: tuple[int, ...]


def _place(row: Row) -> _Place:
    if row.metric == "flops_per_second":
        prefill = PrefillCase.parse(row.case)
        order = (-prefill.kv_len, -prefill.q_len)
        heads = (prefill.heads_q, prefill.heads_kv)
        label = f"{_short(prefill.q_len)}/{_short(prefill.kv_len)}"
        return _Place(heads, prefill.page, "new tokens/keys", label, order)
    case = Case.parse(row.case)
    heads, order = (case.heads_q, case.heads_kv), (case.batch, case.length)
    return _Place(heads, case.page, f"batch {case.batch}", _short(case.length), order)


_TITLES = {
    "kv_bytes_per_second": "Paged decode, KV bytes/s over copy bytes/s.",
    "flops_per_second": "Prefix prefill, operations/s over those of a matrix product.",
}


class _Canvas:
    """Pillow's drawing calls in final pixels."""

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._image = Image.new("RGB", (width * _OVERSAMPLING, height * _OVERSAMPLING), _PAPER)
        self._draw = ImageDraw.Draw(self._image)
        self._fonts = {size: ImageFont.load_default(size * _OVERSAMPLING) for size in (11, 13)}

    def line(self, points: Sequence[_Point], color: str, width: float) -> None:
        self._draw.line([_scaled(point) for point in points], color, round(width * _OVERSAMPLING))

    def dot(self, center: _Point, color: str, radius: float) -> None:
        self._draw.circle(_scaled(center), radius * _OVERSAMPLING, color)

    def text(self, at: _Point, text: str, anchor: str, size: int = 11, color: str = _TEXT) -> None:
        self._draw.text(_scaled(at), text, color, self._fonts[size], anchor)

    def save(self, path: Path) -> None:
        self._image.resize(self._size, Image.Resampling.LANCZOS).save(path, optimize=True)


def draw(results: Results, path: Path) -> None:
    """Writes the plot as PNG."""
    rows = {_place(row): row for row in results.rows}
    heads = list(dict.fromkeys(place.heads for place in rows))
    pages = list(dict.fromkeys(place.page for place in rows))
    names = ["ours", *dict.fromkeys(name for row in results.rows for name in row.peers)]
    canvas = _Canvas(
        max(_LEFT + len(heads) * (_PANEL_W + _GAP), 900), _TOP + len(pages) * (_PANEL_H + _BOTTOM + _GAP)
    )
    canvas.text((_LEFT, 10), f"{_TITLES[results.rows[0].metric]} {results.device}", "lt", 13)
    for index, name in enumerate(names):
        at = (_LEFT + 130 * index, 38)
        canvas.dot((at[0] + 4, at[1]), _color(index), 4)
        canvas.text((at[0] + 14, at[1]), name, "lm")
    for column, (heads_q, heads_kv) in enumerate(heads):
        for line, page in enumerate(pages):
            corner = (_LEFT + column * (_PANEL_W + _GAP), _TOP + line * (_PANEL_H + _BOTTOM + _GAP))
            panel = {
                place: row
                for place, row in rows.items()
                if (place.heads, place.page) == ((heads_q, heads_kv), page)
            }
            _draw_panel(canvas, corner, f"heads {heads_q}/{heads_kv}, page {page}", panel, names)
    canvas.save(path)


def _draw_panel(
    canvas: _Canvas, corner: _Point, title: str, panel: dict[_Place, Row], names: Sequence[str]
) -> None:
    left, top = corner
    floor = top + _PANEL_H

    def height(fraction: float) -> float:
        return floor - min(fraction, _FULL_SCALE) / _FULL_SCALE * (_PANEL_H - 20)

    for percent in range(0, 101, 20):
        y = height(percent / 100)
        canvas.line([(left, y), (left + _PANEL_W, y)], _GRID, 1)
        canvas.text((left - 6, y), f"{percent / 100:.1f}", "rm")
    canvas.text((left, top), title, "lt", 13)
    places = sorted(panel, key=lambda place: place.order)
    groups = list(dict.fromkeys(place.group for place in places))
    # Half a step between groups keeps their lines apart.
    step = _PANEL_W / (len(places) + 0.5 * len(groups))
    x = {place: left + step * (i + 0.75 + 0.5 * groups.index(place.group)) for i, place in enumerate(places)}
    for name in groups:
        group = [place for place in places if place.group == name]
        for place in group:
            canvas.text((x[place], floor + 6), place.label, "mt")
        canvas.text(((x[group[0]] + x[group[-1]]) / 2, floor + 21), name, "mt")
        # Ours comes last, on top.
        for index in reversed(range(len(names))):
            _draw_series(canvas, [(x[place], panel[place]) for place in group], names[index], index, height)


def _draw_series(
    canvas: _Canvas,
    places: Sequence[tuple[float, Row]],
    name: str,
    index: int,
    height: Callable[[float], float],
) -> None:
    ours = index == 0
    values = [(x, row.ours if ours else row.peers.get(name), row.limit) for x, row in places]
    points = [(x, height(value / limit)) for x, value, limit in values if value is not None]
    if len(points) > 1:
        canvas.line(points, _color(index), 3 if ours else 1.5)
    for point in points:
        canvas.dot(point, _color(index), 5 if ours else 3.5)


def _color(index: int) -> str:
    return _COLORS[index % len(_COLORS)]


def _short(length: int) -> str:
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)


def _scaled(point: _Point) -> _Point:
    return point[0] * _OVERSAMPLING, point[1] * _OVERSAMPLING
