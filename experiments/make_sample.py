"""Write the sample of the CDC's survey that ships with the package.

python experiments/make_sample.py brfss2021_2022_harmonized.parquet

The table has one row per respondent: year, state_fips, HadHeartAttack and eleven coded answers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet

from metapac.fewshot.datasets.heart import state_name

TARGET = Path(__file__).parent.parent / "src" / "metapac" / "heart_sites.npz"
ROWS_PER_TASK = 1700
SEED = 20210
FEATURES = {
    "female": "female",
    "age6": "age_group",
    "bmi4": "bmi_group",
    "smoker4": "smoking",
    "diabetes4": "diabetes",
    "stroke": "stroke",
    "kidney": "kidney_disease",
    "checkup4": "last_checkup",
    "ecig3": "e_cigarettes",
    "drinker": "drinks_alcohol",
    "race3": "race_group",
}


def main(source: str) -> None:
    """Draw the rows of each state-year at random and store them."""
    table = pyarrow.parquet.read_table(source)
    column = {name: table[name].to_numpy() for name in table.column_names}
    rng = np.random.default_rng(SEED)
    rows, names = [], []
    for year, state in sorted(set(zip(column["year"], column["state_fips"], strict=True))):
        members = np.flatnonzero((column["year"] == year) & (column["state_fips"] == state))
        rows.append(rng.permutation(members)[:ROWS_PER_TASK])
        names.append(f"{year} {state_name(int(state))}")
    drawn = np.concatenate(rows)
    answers = np.stack([column[name][drawn] for name in ("HadHeartAttack", *FEATURES)])
    np.savez_compressed(
        TARGET,
        answers=answers.astype(np.int8),  # (12, n): a row per question compresses best
        feature_names=np.array(list(FEATURES.values())),
        task_names=np.array(names),
        sizes=np.array([len(each) for each in rows], dtype=np.int16),
    )


if __name__ == "__main__":
    main(sys.argv[1])
