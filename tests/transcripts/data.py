"""The files that transcripts read, by name: small tables and arrays, the same on every machine.

Scores come from uniform numbers and plain arithmetic. A file is made when a command names it.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from metapac import draw_tasks
from tests.helpers.cifar_files import fabricated, write_records
from tests.helpers.commands import metapac
from tests.helpers.miniimagenet_files import with_csv
from tests.helpers.sample_logs import NAME, sample, write_log
from tests.helpers.workbooks import write_workbook

CLASSES = np.array(["cat", "dog", "owl"])
GOLDEN = Path(__file__).parents[1] / "golden"
SCORES = ["p_cat", "p_dog", "p_owl"]
# From the name of a file to the function that writes it.
FILES: dict[str, Callable[[Path], Any]] = {}


def make_files(words: list[str]) -> None:
    """Write the files that a command reads, unless they exist."""
    for before, word in pairwise(words):
        name = word.split("/")[0]
        if name in FILES and before != "-o" and not Path(name).exists():
            FILES[name](Path(name))


def draw(
    prefix: str, sites: int, seed: int, *, signal: float = 1.5, rows: int = 60
) -> pd.DataFrame:
    """Return sites in regions of two, whose examples have a true class, scores and an id."""
    rng, count = np.random.default_rng(seed), sites * rows
    label = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    weights = rng.random((count, 3))
    weights[np.arange(count), label] += signal * rng.random(count)
    scores = weights / weights.sum(axis=1, keepdims=True)
    number = np.repeat(np.arange(sites), rows)
    return pd.DataFrame(
        {
            "site": [f"{prefix} {i:02d}" for i in number],
            "region": [f"{prefix} region {i // 2:02d}" for i in number],
            "patient": np.arange(count),
            "y": CLASSES[label],
            "true": scores[np.arange(count), label],
        }
        | dict(zip(SCORES, scores.T, strict=True))
    )


def draw_numbers(prefix: str, sites: int, seed: int, *, rows: int = 60) -> pd.DataFrame:
    """Return sites whose examples have a number, its prediction and the scale of that."""
    rng, count = np.random.default_rng(seed), sites * rows
    days, spread = rng.integers(1, 30, count), rng.integers(1, 5, count) / 2
    error = spread * (rng.random(count) + rng.random(count) - 1)
    site = np.repeat([f"{prefix} {i:02d}" for i in range(sites)], rows)
    columns = {"site": site, "days": days + error, "predicted": days, "spread": spread}
    return pd.DataFrame(columns)


def old() -> pd.DataFrame:
    return draw("old", 40, seed=0)


def new() -> pd.DataFrame:
    return draw("new", 8, seed=2)


def from_list(part: str, most: int = 60) -> pd.DataFrame:
    """Return sites of list.csv: those that seed 1 draws of it, or others."""
    table = draw("new", 60, seed=12)
    names = getattr(draw_tasks(table.site.unique(), 40, rng=1), part)[:most]
    return table[table.site.isin(names)]


def as_percentages(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{name: 100 * table[name] for name in SCORES})


def as_distances(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{f"d_{kind}": 1 - table[f"p_{kind}"] for kind in CLASSES})


def as_quantiles(table: pd.DataFrame, low: str = "q05", high: str = "q95") -> pd.DataFrame:
    """Return quantiles instead of predictions; some are too close together, and some cross."""
    centre, half = table.pop("predicted"), table.pop("spread") - 0.75
    return table.assign(**{low: centre - half, high: centre + half})


def as_losses(table: pd.DataFrame, prefix: str = "loss") -> pd.DataFrame:
    """Return losses at thresholds of 0.1 to 0.5, which grow with them."""
    steps = {i: 0.75 * (table.true < i / 10) + 0.25 * (table.true < i / 5) for i in range(1, 6)}
    return table[["site", "patient"]].assign(**{f"{prefix}_{i}": x for i, x in steps.items()})


def csv(name: str, table: Callable[[], pd.DataFrame], **options: Any) -> None:
    """Register a CSV file."""
    FILES[name] = lambda path: table().to_csv(path, index=False, **options)


OTHER_NAMES = {"region": "area", "y": "animal", "true": "p"}
OTHER_NAMES |= {"days": "stay", "predicted": "guess", "spread": "sd"}
EUROPEAN = {"sep": ";", "decimal": ",", "encoding": "latin-1"}
csv("scores.csv", old)
csv("few.csv", lambda: draw("old", 4, seed=0))
csv("uneven.csv", lambda: pd.concat([old(), draw("small", 3, seed=9, rows=5)]))
csv("doubled.csv", lambda: pd.concat([old(), old()]))
csv("visits.csv", lambda: old().assign(home=lambda table: table.patient // 2))
csv("visits-new.csv", lambda: new().assign(home=lambda table: table.patient // 2))
csv("other-names.csv", lambda: new().rename(columns=OTHER_NAMES))
csv("ids.csv", lambda: old().assign(patient=lambda table: table.patient % 59))
csv("spaces.csv", lambda: old().replace({"old 01": "old 00 "}))
csv("gaps.csv", lambda: old().assign(p_owl=lambda table: table.p_owl.mask(table.patient == 7)))
csv("rare.csv", lambda: old()[lambda table: (table.y != "owl") | (table.patient % 20 == 0)])
csv("other-scale.csv", lambda: new().assign(**dict.fromkeys(SCORES, 0.01)))
csv("renamed.csv", lambda: draw("january", 6, seed=20).replace({"january 03": "jan. 3"}))
csv("redrawn.csv", lambda: draw("january", 6, seed=23))
csv("distances.csv", lambda: as_distances(old()))
csv("trained.csv", lambda: old()[["site", "y"]].head(120))
csv("scores.tsv", old, sep="\t")
csv("tabs.txt", old, sep="\t")
csv("european.csv", lambda: old().replace({"old 00": "Köln"}), **EUROPEAN)
csv("pilot.csv", lambda: draw("pilot", 30, seed=1))
csv("new.csv", new)
csv("many.csv", lambda: draw("new", 60, seed=12))
csv("list.csv", lambda: draw("new", 60, seed=12)[["site"]].drop_duplicates())
csv("drawn.csv", lambda: from_list("drawn"))
csv("rest.csv", lambda: from_list("rest"))
csv("part.csv", lambda: from_list("rest", 14))
csv("mixed.csv", lambda: pd.concat([new(), draw("old", 2, seed=0)]))
csv("percent.csv", lambda: as_percentages(new()))
csv("unlabelled.csv", lambda: draw("new", 2, seed=2, rows=3)[["site", *SCORES]])
csv("european-new.csv", lambda: draw("Köln", 8, seed=2), **EUROPEAN)
csv("january.csv", lambda: draw("january", 6, seed=20))
csv("february.csv", lambda: draw("february", 6, seed=21))
# Worse scores than before, better ones, and two classes swapped.
csv("march.csv", lambda: draw("march", 14, seed=22, signal=0.3))
csv("bad.csv", lambda: draw("bad", 20, seed=3, signal=0.3))
csv("other.csv", lambda: draw("other", 12, seed=8, signal=6)[["site", *SCORES]])
SWAPPED = {"p_cat": "p_owl", "p_owl": "p_cat"}
csv("swapped.csv", lambda: draw("new", 20, seed=13).rename(columns=SWAPPED))
csv("losses.csv", lambda: as_losses(old()))
csv("losses-new.csv", lambda: as_losses(new(), "lost"))
csv("numbers.csv", lambda: draw_numbers("old", 40, seed=4))
csv("quantiles.csv", lambda: as_quantiles(draw_numbers("old", 40, seed=4)))
csv("quantiles-new.csv", lambda: as_quantiles(draw_numbers("new", 8, seed=5), "lo", "hi"))
csv("numbers-new.csv", lambda: draw_numbers("new", 8, seed=5).rename(columns=OTHER_NAMES))
FILES["trained.txt"] = lambda path: path.write_text("ohio\nold 03\n")
FILES["scores.parquet"] = lambda path: old().to_parquet(path)
FILES["new.parquet"] = lambda path: new().to_parquet(path)
JSON: dict[str, Any] = {"orient": "records", "lines": True, "double_precision": 15}
FILES["scores.jsonl"] = lambda path: old().to_json(path, **JSON)


def write_lists(path: Path) -> None:
    """Write scores in lists, whose classes stand beside them or are known."""
    table = old() if path.stem == "lists" else new()
    scores, kinds = table[SCORES].to_numpy(), [[*CLASSES]] * len(table)
    table = table.drop(columns=SCORES).assign(scores=[*scores], kinds=kinds)
    table.to_parquet(path)


FILES["lists.parquet"] = FILES["lists-new.parquet"] = write_lists


def write_databases(path: Path) -> None:
    """Write a database of two tables and a view of the new sites."""
    tables = {"scores": old(), "new": new()}
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as database:
            for name, frame in tables.items():
                database.register("frame", frame)
                database.execute(f"CREATE TABLE {name} AS FROM frame")
            database.unregister("frame")
            database.execute("CREATE VIEW latest AS FROM new")
        return
    connection = sqlite3.connect(path)
    for name, frame in tables.items():
        frame.to_sql(name, connection, index=False)
    connection.execute("CREATE VIEW latest AS SELECT * FROM new")
    connection.commit()
    connection.close()


FILES["data.duckdb"] = FILES["data.sqlite"] = write_databases


def write_sheets(path: Path) -> None:
    table = old()[["site", "y", "true"]]
    write_workbook(path, {"notes": [["nothing"]], "scores": [[*table], *table.to_numpy().tolist()]})


FILES["book.xlsx"] = write_sheets


def write_sites(path: Path) -> None:
    """Write the files that twelve sites send, each made by the command."""
    path.mkdir()
    for name, table in draw("site", 12, seed=6, rows=80).groupby("site"):
        table[["true"]].to_csv("one-site.csv", index=False)
        words = ["--name", name, "--score", "true", "--epsilon", 0.2, "--alpha", 0.3]
        result = metapac(
            "site", "one-site.csv", *words, "--delta", 0.1, "-o", path / f"{name}.json"
        )
        assert result.exit_code == 0, result.output


FILES["sites"] = write_sites
FILES["0.2.0"] = lambda path: shutil.copytree(GOLDEN / path, path)


def write_parts(path: Path) -> None:
    """Write the old sites in three files."""
    path.mkdir()
    for i in range(3):
        old().iloc[i::3].to_parquet(path / f"{i}.parquet")


FILES["parts"] = write_parts


def draw_vectors(classes: int = 30, each: int = 16) -> tuple[Any, Any]:
    """Return vectors of classes with a centre each."""
    rng, y = np.random.default_rng(7), np.repeat(np.arange(classes), each)
    x = 2 * rng.random((classes, 6))[y] + rng.random((len(y), 6))
    return x, y


def array(name: str, **arrays: Callable[[Any, Any], Any]) -> None:
    """Register a file of arrays that are made from vectors and classes."""

    def write(path: Path) -> None:
        made = {key: make(*draw_vectors()) for key, make in arrays.items()}
        if path.suffix == ".npy":
            np.save(path, *made.values())
        else:
            np.savez(path, **made)

    FILES[name] = write


def name_classes(x: Any, y: Any) -> Any:
    return np.array([f"class {i:02d}" for i in range(30)])[y]


array("classes.npz", x=lambda x, y: x, y=name_classes)
array(
    "groups.npz", x=lambda x, y: x, y=lambda x, y: y % 3, groups=lambda x, y: np.arange(len(y)) % 12
)
array("x.npy", x=lambda x, y: x)
array("y.npy", y=lambda x, y: y)
array("g.npy", g=lambda x, y: np.arange(len(y)) % 12)
array("group-support.npz", x=lambda x, y: x[:4], y=lambda x, y: np.array([0, 1, 2, 0]))
array("g-short.npy", g=lambda x, y: y[:5])
array("nan.npy", x=lambda x, y: np.where(x == x[2, 1], np.nan, x))
array("labels-of-groups.npy", y=lambda x, y: y % 3)
array("ward.npy", x=lambda x, y: x[[2, 3, 18, 34, 35]])
array(
    "support.npz",
    x=lambda x, y: x[[0, 1, 16, 17, 32, 33]],
    y=lambda x, y: name_classes(x, y)[[0, 1, 16, 17, 32, 33]],
)


def write_vectors(path: Path) -> None:
    x, y = draw_vectors()
    columns = {f"f_{i}": x[:, i] for i in range(6)}
    pd.DataFrame({"kind": name_classes(x, y), "site": y % 3} | columns).to_parquet(path)


FILES["vectors.parquet"] = write_vectors


def write_images(path: Path) -> None:
    """Write 12 classes of images of one colour, in a folder for each."""
    from PIL import Image

    for i in range(12):
        (path / f"bird {i}").mkdir(parents=True)
        for j in range(6):
            Image.new("L", (20, 24), 20 * i + j).save(path / f"bird {i}" / f"{j}.png")


FILES["images"] = write_images


def write_logs(path: Path) -> None:
    """Write sample logs of subjects whose questions have three to five choices."""
    first, count = (0, 40) if path.name == "logs" else (40, 10)
    rng = np.random.default_rng(first)
    for task in range(first, first + count):
        records = []
        for i in range(40):
            size, label = int(rng.integers(3, 6)), int(rng.integers(3))
            values = 2 * rng.random(size) + 1.5 * (np.arange(size) == label) - 9
            records.append(sample(values.tolist(), label, doc_id=i))
        write_log(path, records, NAME.replace("mmlu_law", f"subject{task}"))
    (path / "results_2026-01-31T12-34-56.789012.json").write_text('{"model_name": "pythia-70m"}')


FILES["logs"] = FILES["new-logs"] = write_logs
FILES["mini"] = with_csv
FILES["cifar"] = lambda path: write_records(path, fabricated())


def write_survey(path: Path) -> None:
    """Write a survey of two states in two years, as a table."""
    path.mkdir()
    rng, rows = np.random.default_rng(11), 240
    columns = {
        "where": np.arange(rows) % 2 * 38 + 1,
        "when": np.arange(rows) // 120 + 2011,
        "health": rng.integers(1, 6, rows),
        "attack": (rng.random(rows) < 0.2).astype(int),
        "age": rng.integers(18, 81, rows),
        "leak": rng.integers(0, 2, rows),
    }
    pd.DataFrame(columns).to_csv(path / "heart.csv", index=False)


def write_relations(path: Path) -> None:
    """Write relations of two sentences each; the first word identifies the relation."""
    path.mkdir()
    place = {"h": ["x", "Q1", [[0]]], "t": ["y", "Q2", [[1]]]}
    for name, numbers in (("train_wiki", range(10, 14)), ("val_wiki", range(14, 16))):
        relations = {f"P{i}": [{"tokens": [f"w{i}", "of"], **place}] * 2 for i in numbers}
        (path / f"{name}.json").write_text(json.dumps(relations))


FILES["brfss"] = write_survey
FILES["fewrel-files"] = write_relations
FILES["vectors.txt"] = lambda path: path.write_text("".join(f"w{i} {i} 1\n" for i in range(10, 16)))
NAMES = [f"class {i:02d}" for i in range(30)]
SPLITS = {
    "split.json": {"calibration": NAMES[:15], "test": NAMES[15:]},
    "twice.json": {"calibration": NAMES[:15], "test": NAMES[14:]},
}
for name in SPLITS:
    FILES[name] = lambda path: path.write_text(json.dumps(SPLITS[path.name]))
