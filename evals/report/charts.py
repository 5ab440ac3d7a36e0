"""Charts as SVG text, drawn here so that report.html needs no script and no network to show them.

Colours are CSS variables (`--s0`, `--s1`, ...) of the page, so that they follow its light and dark theme.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 40
TICKS = 5


@dataclass(frozen=True)
class Series:
    """A named line; `color` is the number of a page colour."""

    name: str
    points: Sequence[Sequence[float]]
    color: int
    dashed: bool = False


@dataclass(frozen=True)
class Bar:
    """A value between 0 and 1 with its interval."""

    name: str
    value: float
    low: float
    high: float
    color: int


def bar_chart(groups: Sequence[tuple[str, Sequence[Bar]]], title: str) -> str:
    """Groups of bars with interval whiskers, in per cent, each with its value written above."""
    marks = ticks(0.0, 100 * max((b.high for _, bars in groups for b in bars), default=1.0))
    top, parts = marks[-1], [_frame(marks, [], percent=True)]
    slot = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    for g, (label, bars) in enumerate(groups):
        width = min(44.0, slot * 0.8 / max(len(bars), 1))
        start = LEFT + slot * g + (slot - width * len(bars)) / 2
        for i, bar in enumerate(bars):
            parts.append(_bar(bar, start + i * width, width, top))
        parts.append(_text(LEFT + slot * (g + 0.5), HEIGHT - BOTTOM + 18, label, "middle"))
    return _svg(parts, title)


def line_chart(series: Sequence[Series], title: str, x_label: str, log_x: bool = False, percent: bool = False) -> str:
    """Lines over a common x axis; `log_x` spaces powers of two evenly."""

    def position(x: float) -> float:
        return math.log2(x) if log_x else x

    xs = [p[0] for s in series for p in s.points]
    ys = [p[1] * (100 if percent else 1) for s in series for p in s.points]
    if not xs:
        return ""
    x_range = (position(min(xs)), position(max(xs)))
    y_marks = ticks(0.0 if percent else min(ys), max(ys))
    y_range = (y_marks[0], y_marks[-1])
    few = log_x or len(set(xs)) <= 8
    marks = sorted(set(xs)) if few else [x for x in ticks(*x_range) if x_range[0] <= x <= x_range[1]]
    parts = [_frame(y_marks, [(_scale(position(x), x_range, LEFT, WIDTH - RIGHT), _short(x)) for x in marks], percent)]
    for s in series:
        points = [
            (_scale(position(x), x_range, LEFT, WIDTH - RIGHT), _y(y * (100 if percent else 1), y_range))
            for x, y in s.points
        ]
        dash = ' stroke-dasharray="6 4"' if s.dashed else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        name = f'data-name="{escape(s.name)}" data-color="var(--s{s.color})"'  # for the pointer's readout, charts.js
        parts.append(
            f'<polyline {name} points="{path}" fill="none" stroke="var(--s{s.color})" stroke-width="2"{dash}/>'
        )
        if len(points) <= 12:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--s{s.color})"/>' for x, y in points]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle"))
    axes = [LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP, *x_range, *y_range]
    axis = f'data-axes="{" ".join(f"{v:.8g}" for v in axes)}" data-x="{"log " if log_x else ""}{x_label.split()[0]}"'
    return _svg(parts, title, attributes=axis)


def dot_chart(rows: Sequence[tuple[str, Sequence[Bar]]], title: str) -> str:
    """A row a group, in it a dot with its interval for each value, in per cent: room for long names and many groups."""
    marks = ticks(0.0, 100 * max((b.high for _, bars in rows for b in bars), default=1.0))
    left, step = min(240.0, 14 + max(_width(name) for name, _ in rows)), 8.0
    parts, y = [], 10.0
    for name, bars in rows:
        height = step * len(bars) + 12
        parts.append(_text(left - 10, y + height / 2 + 4, name, "end"))
        parts.append(
            f'<line x1="{left}" x2="{WIDTH - RIGHT}" y1="{y + height}" y2="{y + height}" stroke="var(--line)"/>'
        )
        parts += [_dot(bar, y + 6 + step * (i + 0.5), left, marks[-1]) for i, bar in enumerate(bars)]
        y += height
    for value in marks:
        x = _scale(value, (0.0, marks[-1]), left, WIDTH - RIGHT)
        parts.insert(0, f'<line x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{y}" stroke="var(--line)"/>')
        parts.append(_text(x, y + 16, _short(value) + "%", "middle" if value < marks[-1] else "end"))
    return _svg(parts, title, y + 26)


def reliability_chart(curve: Sequence[dict[str, float]], title: str) -> str:
    """Predicted probability against the mean label; a dot's area is the share of the steps in it."""
    unit, most = (0.0, 1.0), max(p["steps"] for p in curve)
    side = HEIGHT + 60
    parts = []
    for value in ticks(*unit):
        x, y = _scale(value, unit, LEFT, side), _scale(value, unit, side - BOTTOM, TOP)
        parts.append(f'<line x1="{LEFT}" x2="{side}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
        parts += [_text(LEFT - 6, y + 4, _short(value), "end"), _text(x, side - BOTTOM + 16, _short(value), "middle")]
    parts.append(
        f'<line x1="{LEFT}" y1="{side - BOTTOM}" x2="{side}" y2="{TOP}" stroke="var(--soft)" stroke-dasharray="6 4"/>'
    )
    points = [
        (_scale(p["predicted"], unit, LEFT, side), _scale(p["label"], unit, side - BOTTOM, TOP), p) for p in curve
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="var(--s1)" stroke-width="2" stroke-opacity="0.45"/>')
    for x, y, p in points:
        tip = f"predicted {p['predicted']:.3f}, label {p['label']:.3f}, {p['steps']} steps"
        radius = 3 + 9 * math.sqrt(p["steps"] / most)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="var(--s1)" fill-opacity="0.55" '
            f'stroke="var(--s1)"><title>{escape(tip)}</title></circle>'
        )
    parts.append(_text((LEFT + side) / 2, side - 6, "predicted p(good)", "middle"))
    return _svg(parts, title, side, side + RIGHT)


def ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers, evenly spaced, from at most `low` to at least `high` (Heckbert 1990)."""
    if high <= low:  # a flat line lies above its axis
        low, high = min(low, 0.0), max(high, 0.0) or low + 1.0
    power = 10.0 ** math.floor(math.log10((high - low) / TICKS))
    step = next(m * power for m in (1, 2, 5, 10) if m * power * TICKS >= (high - low) * 0.999999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def _bar(bar: Bar, x: float, width: float, top: float) -> str:
    y, low, high = (_y(100 * v, [0.0, top]) for v in (bar.value, bar.low, bar.high))
    middle, base = x + width / 2, HEIGHT - BOTTOM
    tip = f"{bar.name}: {100 * bar.value:.1f} ({100 * bar.low:.1f} to {100 * bar.high:.1f})"
    return (
        f'<g><title>{escape(tip)}</title><rect x="{x + 2:.1f}" y="{y:.1f}" width="{width - 4:.1f}" '
        f'height="{max(base - y, 0.5):.1f}" rx="2" fill="var(--s{bar.color})"/>'
        f'<path d="M{middle:.1f} {low:.1f}V{high:.1f}M{middle - 4:.1f} {high:.1f}h8M{middle - 4:.1f} {low:.1f}h8" '
        f'stroke="var(--ink)" stroke-width="1.2" fill="none"/>'
        f"{_text(middle, max(high - 5, 10), f'{100 * bar.value:.1f}', 'middle')}</g>"
    )


def _frame(y_marks: Sequence[float], x_marks: Sequence[tuple[float, str]], percent: bool) -> str:
    """Horizontal grid lines with their values, and the marks of the x axis."""
    parts = []
    for value in y_marks:
        y = _y(value, (y_marks[0], y_marks[-1]))
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
        parts.append(_text(LEFT - 6, y + 4, _short(value) + ("%" if percent else ""), "end"))
    parts += [_text(x, HEIGHT - BOTTOM + 16, label, "middle") for x, label in x_marks]
    return "".join(parts)


def _dot(bar: Bar, y: float, left: float, top: float) -> str:
    value, low, high = (
        _scale(100 * v, (0.0, top), left, WIDTH - RIGHT) for v in (bar.value, bar.low, min(bar.high, top))
    )
    tip = f"{bar.name}: {100 * bar.value:.1f} ({100 * bar.low:.1f} to {100 * bar.high:.1f})"
    return (
        f'<g><title>{escape(tip)}</title><path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="var(--s{bar.color})" '
        f'stroke-width="2" stroke-opacity="0.45"/><circle cx="{value:.1f}" cy="{y:.1f}" r="3.6" '
        f'fill="var(--s{bar.color})"/></g>'
    )


def _width(text: str) -> float:
    """About how wide a text is drawn at 12 pixels; an ideograph is as wide as it is high."""
    return sum(12.0 if ord(c) > 0x2E80 else 6.6 for c in text)


def _svg(parts: Sequence[str], title: str, height: float = HEIGHT, width: float = WIDTH, attributes: str = "") -> str:
    label = f'role="img" aria-label="{escape(title, quote=True)}"'
    head = f'<svg viewBox="0 0 {width:.0f} {height:.0f}" {label} {attributes}>'
    return head + "".join(parts) + "</svg>"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _y(value: float, y_range: Sequence[float]) -> float:
    return _scale(value, y_range, HEIGHT - BOTTOM, TOP)


def _scale(value: float, source: Sequence[float], low: float, high: float) -> float:
    width = source[1] - source[0]
    return low + (high - low) * ((value - source[0]) / width if width else 0.5)


def _short(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}".replace("-", "−")
