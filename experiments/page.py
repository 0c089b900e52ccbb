"""Write docs/results.md and its figures from the stored results: python experiments/page.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from experiments.results_page.assemble import page
from experiments.results_page.figures import draw_all
from experiments.results_page.stored import ROOT, read_results
from metapac.artefact import replacing

PAGE = ROOT / "docs" / "results.md"
FIGURES = ROOT / "docs" / "figures"


def main() -> None:
    """Write the page and its figures."""
    results = read_results()
    draw_all(results, FIGURES)
    with replacing(PAGE) as file:
        file.write(page(results))


if __name__ == "__main__":
    main()
