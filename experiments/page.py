"""Write the pages of results and their figures from the stored rows: python experiments/page.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from experiments.results_page.assemble import pages
from experiments.results_page.figures import draw_all
from experiments.results_page.stored import ROOT, read_results
from metapac.artefact import replacing

FIGURES = ROOT / "docs" / "figures"


def main() -> None:
    """Write the pages and their figures."""
    results = read_results()
    draw_all(results, FIGURES)
    for path, text in pages(results).items():
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as file:
            file.write(text)


if __name__ == "__main__":
    main()
