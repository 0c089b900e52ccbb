"""The pages, from stored results: a summary, a notebook for each data set, one for all."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from experiments.results_page import (
    controls,
    learners,
    neighbours,
    research_code,
    sampling_noise,
    splits,
)
from experiments.results_page.markdown import anchor, join
from experiments.results_page.opening import opening, summary
from experiments.results_page.sections import claims_section, experiment_section
from experiments.results_page.stored import ROOT, Result

SUMMARY = ROOT / "docs" / "understand" / "results.md"
NOTEBOOKS = ROOT / "experiments" / "notebooks"


def pages(results: Sequence[Result]) -> dict[Path, str]:
    """Return the text of each page by its path."""
    notebook = [
        opening(results),
        claims_section(results),
        learners.section(results),
        splits.section(results),
        controls.section(results),
        sampling_noise.section(results),
        research_code.section(results),
        neighbours.section(results),
    ]
    found = {SUMMARY: summary(results), NOTEBOOKS / "methods.md": join(notebook)}
    for data, same in groupby(results, key=lambda result: result.experiment.data):
        first, *others = same
        title = f"# Results: {first.title.partition(',')[0]}"
        sections = map(experiment_section, [first, *others])
        found[NOTEBOOKS / f"{data}.md"] = join([title, *sections])
    homes = {name: path for path, text in found.items() for name in anchors(text)}
    return {path: _relink(text, path, homes) + "\n" for path, text in found.items()}


def anchors(text: str) -> list[str]:
    """Return the anchors of the headings of a page."""
    return [anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]


def _relink(text: str, page: Path, homes: dict[str, Path]) -> str:
    """Point links to anchors at the page that has them, others from the root at the page."""

    def replace(match: re.Match[str]) -> str:
        target, name = match[1], match[2] or ""
        if "://" in target:
            return match[0]
        path = ROOT / target if target else homes[name.removeprefix("#")]
        relative = "" if path == page else os.path.relpath(path, page.parent)
        return f"]({relative}{name})"

    return re.sub(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", replace, text)
