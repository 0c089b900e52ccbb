"""The whole page, from stored results."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.results_page import (
    controls,
    learners,
    neighbours,
    research_code,
    sampling_noise,
    splits,
)
from experiments.results_page.markdown import join
from experiments.results_page.opening import opening
from experiments.results_page.sections import claims_section, experiment_section
from experiments.results_page.stored import Result


def page(results: Sequence[Result]) -> str:
    """Return the page as text."""
    parts = [
        opening(results),
        claims_section(results),
        learners.section(results),
        splits.section(results),
        controls.section(results),
        sampling_noise.section(results),
        research_code.section(results),
        neighbours.section(results),
        *map(experiment_section, results),
    ]
    return join(parts) + "\n"
