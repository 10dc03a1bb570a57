"""Results: mappings with the JSON of the command line, and their figures."""

from __future__ import annotations

import difflib
import html
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path as PurePath
from typing import Any

from . import _strobe

Path = str | os.PathLike[str]

#: Height of a notebook cell in pixels: with an X-ray, and with figures only.
_XRAY_HEIGHT, _FIGURES_HEIGHT = 860, 620


class Figure:
    """Picture of a result, drawn by Strobe: SVG, also shown in notebooks, or PDF."""

    def __init__(self, name: str, svg: str) -> None:
        self.name = name
        """Name of the figure."""
        self.svg = svg
        """Content of the SVG file."""

    def save(self, path: Path, *, font: Path | None = None) -> None:
        """Writes the figure as ``.svg`` or ``.pdf``, by the suffix of ``path``.

        ``font`` is a TrueType file (``.ttf``) for the text of a PDF; the default is DejaVu Sans Condensed.
        """
        target = PurePath(path)
        match target.suffix.lower():
            case ".svg" if font is not None:
                raise ValueError(f"font: {target} is no PDF, and only a PDF contains its font")
            case ".svg":
                target.write_text(self.svg, encoding="utf-8")
            case ".pdf":
                target.write_bytes(_strobe._pdf(self.svg, PurePath(font).read_bytes() if font is not None else None))
            case other:
                raise ValueError(f"{target}: the suffix is {other!r}; allowed are .svg and .pdf")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<strobe.Figure {self.name}>"


def looking(name: str, svg: str, width_mm: float | None, grey: bool) -> Figure:
    """Returns the figure of ``svg`` with its printed width and colours."""
    sized = svg if width_mm is None else _strobe._sized(svg, width_mm)
    return Figure(name, _strobe._grey(sized) if grey else sized)


def nearest(given: str, names: list[str]) -> str:
    """Returns ``; did you mean ...?`` if one of ``names`` is similar."""
    near = difflib.get_close_matches(given, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def in_frame(page: str, height: int) -> str:
    """Returns ``page`` as a frame for a notebook cell."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )


class JsonMapping(Mapping[str, Any]):
    """JSON of the command line as a mapping."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._values: dict[str, Any] = json.loads(text)

    def __getitem__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            names = list(self._values)
            raise KeyError(f"{key!r}; the keys are {', '.join(names)}{nearest(str(key), names)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def to_json(self) -> str:
        """Returns the JSON."""
        return self._text

    def _page(self, name: str) -> str:
        raise NotImplementedError

    def report(self, path: Path | None = None, *, name: str | None = None) -> str | None:
        """Writes the page of figures, as ``--report`` does, to ``path``; without ``path`` returns it.

        The page is one self-contained HTML file. Its title is ``name``, by default the name of the file.
        """
        title = name or (PurePath(path).stem if path is not None else "run")
        page = self._page(title)
        if path is None:
            return page
        PurePath(path).write_text(page, encoding="utf-8")
        return None


class Result(JsonMapping):
    """Result of a run: the JSON of ``strobe run --json`` as a mapping.

    ``strobe schema result`` explains each key. In a notebook the result shows its headline figures, and plays the X-ray of the
    drive if the run recorded one (``xray=60``).
    """

    @property
    def waf(self) -> float | None:
        """Write amplification of the measured window: units programmed per unit written by the host, or None."""
        waf: float | None = self["waf"]
        return waf

    def reproducible(self) -> dict[str, Any]:
        """Returns the values without the simulator's speed: identical on every machine and in every run."""
        values: dict[str, Any] = json.loads(self._text)
        values["time"].update(wall_s=None, cpu_s=None)
        if "sim" in values:
            values["sim"].update(host_pages_per_cpu_s=None)
        return values

    def _page(self, name: str) -> str:
        return _strobe._page([(name, self._text)])

    @property
    def figures(self) -> list[str]:
        """Names of the figures that ``plot`` draws."""
        return [name for name, _ in _strobe._figures("run", self._text)]

    def plot(self, figure: str | None = None, *, width_mm: float | None = None, grey: bool = False) -> Figure:
        """Draws a figure of the result, by default the first; no other package is needed.

        ``figures`` lists the names. ``width_mm`` is the printed width: 85 for a column of most journals. ``grey`` draws
        in greys; dashes distinguish the lines. The figure shows in a notebook; ``plot().save("waf.pdf")`` writes it as PDF or SVG.
        """
        drawn = dict(_strobe._figures("run", self._text))
        if not drawn:
            raise ValueError("this result has no figures: nothing was measured")
        name = next(iter(drawn)) if figure is None else figure
        if name not in drawn:
            raise KeyError(f"{name!r}; the figures are {', '.join(drawn)}{nearest(name, list(drawn))}")
        svg = drawn[name]
        return looking(name, svg, width_mm, grey)

    def _repr_html_(self) -> str:
        height = _XRAY_HEIGHT if self._values.get("xray") else _FIGURES_HEIGHT
        return in_frame(_strobe._cell("run", self._text), height)

    def __repr__(self) -> str:
        return f"<strobe.Result of {self['config_hash']} with seed {self['seed']}: WAF {self['waf']}>"
