"""Sites to combine: their scores, their files, and a table of all with labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from metapac.fewshot.synthetic import NormalFamily
from tests.helpers.engines import connection
from tests.helpers.tables import site_table

GUARANTEE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def draw_scores(count: int = 12) -> dict[str, Any]:
    """Return the scores of sites; each has one example less than the one before."""
    family = NormalFamily()
    drawn = family.draw_scores(family.draw_tasks(count, rng=0), 80, rng=1)
    return {f"site {i}": row[: 80 - i] for i, row in enumerate(drawn)}


def send_site(name: str, values: Any, folder: Path, **changes: Any) -> Path:
    """Write the file of a site and return its path."""
    frame = pd.DataFrame({"p": values})
    there = connection("duckdb")
    site = site_table(frame, name=name, score="p", connection=there, **GUARANTEE | changes)
    site.save(folder / f"{name}.json")
    return folder / f"{name}.json"


def labelled_sites(count: int = 30) -> pd.DataFrame:
    """Sites with a common class, and a rare one that some of them lack."""
    rng = np.random.default_rng(0)
    rows = count * 90
    site = np.repeat([f"site {i:02d}" for i in range(count)], 90)
    rare = rng.random(rows) < np.repeat(rng.choice([0.0, 0.2, 0.3], count), 90)
    yes = np.where(rare, 0.4, 0.1) + 0.3 * rng.random(rows)
    label = np.where(rare, "yes", "no")
    true = np.where(rare, yes, 1 - yes)
    frame = {"site": site, "y": label, "p_no": 1 - yes, "p_yes": yes, "true": true}
    return pd.DataFrame(frame)
