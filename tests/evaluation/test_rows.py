"""Tables of rows: selection, writing and reading."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import BadArtefact
from metapac.fewshot import paper_methods, run_study
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.rows import Rows, read_table, write_table
from metapac.fewshot.study.run import read_guarantee, read_rows
from tests.helpers.studies import GUARANTEE, SmallStudy, same_rows

NAMES = ("PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")


AGAIN = ("Meta-CP", "Meta-PS even", "Meta-PS tight")


def test_rows_are_selected_by_method() -> None:
    methods = paper_methods(GUARANTEE, second_delta=0.1)
    rows = run_study(SmallStudy(), guarantee=GUARANTEE, methods=methods, draws=2)
    assert len(rows) == 2 * 4 * (len(NAMES) + len(AGAIN))
    assert set(rows.select("Meta-CP").delta.tolist()) == {0.2}
    assert set(rows.select("Meta-CP", 0.1).delta.tolist()) == {0.1}
    with pytest.raises(ValueError, match="rows hold no method 'PSS'; they have: PS at delta=0.2,"):
        rows.select("PSS")
    with pytest.raises(ValueError, match="rows hold no method 'PS' at delta=0.3; they have: PS"):
        rows.select("PS", 0.3)


DRAWS = 4


def run(folder: Path, study: SmallStudy | None = None, **changes: Any) -> Rows:
    settings: dict[str, Any] = {"guarantee": GUARANTEE, "draws": DRAWS, "folder": folder}
    return run_study(study or SmallStudy(), **(settings | changes))


def draw_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("draws-*/*.csv.gz"))


@dataclass(frozen=True)
class Counting(SmallStudy):
    """A study that counts its draws; it describes itself as the one that does not."""

    def draw(self, rng: np.random.Generator) -> Draw:
        COUNTED.append(1)
        return super().draw(rng)


COUNTED: list[int] = []


def test_what_was_written_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    rows = run(tmp_path / "new" / "folder", SmallStudy(labelled=3))
    assert (rows.select("PS-Test").threshold == -np.inf).all()
    assert not rows.select("PS-Test").feasible.any()
    assert rows.select("PS").feasible.all()
    result = read_rows(tmp_path / "new" / "folder")
    assert same_rows(rows, result)
    assert {name: column.dtype.kind for name, column in vars(result).items()} == {
        "draw": "i", "method": "U", "delta": "f", "task": "i",
        "threshold": "f", "feasible": "b", "error": "f", "size": "f", "examples": "i",
        "labels": "i",
    }  # fmt: skip
    assert read_guarantee(tmp_path / "new" / "folder") == GUARANTEE


def test_the_table_is_tidy_and_its_bytes_are_fixed(tmp_path: Path) -> None:
    rows = run(tmp_path / "a")
    frame = pd.read_csv(tmp_path / "a" / "rows.csv.gz")
    assert list(frame) == [
        "draw", "method", "delta", "task", "threshold", "feasible", "error", "size", "examples",
        "labels",
    ]  # fmt: skip
    assert len(frame) == len(rows) == DRAWS * 4 * len(paper_methods(GUARANTEE))
    run(tmp_path / "b")
    for name in ("rows.csv.gz", "evaluation.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_every_truncation_and_any_other_damage_is_noticed(tmp_path: Path) -> None:
    rows = run(tmp_path)
    path = draw_files(tmp_path)[1]
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(BadArtefact, match="is not a complete table of an evaluation"):
            read_table(path)
    for i in range(10, len(whole), 7):  # the first ten are gzip's header, which we do not check
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        with pytest.raises(BadArtefact, match="Call run_study again with the same settings"):
            read_table(path)
    assert same_rows(run(tmp_path, Counting()), rows)
    assert len(COUNTED) == 1
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "text",
    [
        "draw,method\n0,PS\n",
        "not a table",
        "",
        "draw,method,delta,task,threshold,feasible,error,size\n",
    ],
)
def test_another_table_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(BadArtefact, match="is not a complete table of an evaluation"):
        read_table(path)


def test_rows_say_how_many_examples_an_error_was_counted_on(tmp_path: Path) -> None:
    rows = run(tmp_path)
    assert set(rows.examples.tolist()) == {20}
    assert set(rows.labels.tolist()) == {3}
    np.testing.assert_allclose(rows.error * 20, np.rint(rows.error * 20))


@pytest.mark.parametrize("missing", [["labels"], ["examples", "labels"]])
def test_a_table_from_before_the_last_columns_is_read(tmp_path: Path, missing: list[str]) -> None:
    rows = run(tmp_path)
    path = tmp_path / "rows.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    old = "\n".join(line.rsplit(",", len(missing))[0] for line in lines) + "\n"
    path.write_bytes(gzip.compress(old.encode()))
    unknown: dict[str, Any] = dict.fromkeys(missing, np.zeros(len(rows), np.int64))
    assert same_rows(read_rows(tmp_path), replace(rows, **unknown))


def test_unusual_names_survive_a_round_trip(tmp_path: Path) -> None:
    rows = run_study(SmallStudy(), guarantee=GUARANTEE, draws=1)
    names = rows.method.astype("U20")
    names[0] = 'a, "b"\n\N{SNOWMAN}'
    odd = replace(rows, method=names)
    write_table(tmp_path / "rows.csv.gz", odd)
    assert same_rows(read_table(tmp_path / "rows.csv.gz"), odd)
