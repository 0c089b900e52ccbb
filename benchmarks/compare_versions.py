"""Compare what two versions of metapac compute: python benchmarks/compare_versions.py OLD NEW.

OLD and NEW are checkouts. Both compute the same guarantees over arrays, tables, sites, learners
and stored results, each in a process of its own; every number must agree to the last bit. The new
version must also read the promise and site files of the old one and find the same thresholds.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

EPSILON, ALPHA, DELTA = 0.1, 0.1, 0.05
# Words may change from version to version; so do versions, and with them checksums.
WORDING = {"promise", "metapac", "checksum"}
Result = tuple[str, Any]
NOW = ("metapac", "metapac.fewshot", "metapac.fewshot.study.run")
BEFORE = ("sites", "learners", "scoring", "tasks", "evaluation")
PACKAGES = (*NOW, *(f"metapac.{name}" for name in BEFORE))


def main(old: str, new: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        before = _run(old, Path(folder, "old"), Path(folder, "old"))
        after = _run(new, Path(folder, "new"), Path(folder, "old"))
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    for name in differing:
        print(f"{name}\n  old {before.get(name)}\n  new {after.get(name)}")
    print(f"{len(after)} results compared, {len(differing)} differ")
    return 1 if differing or not after else 0


def _run(checkout: str, folder: Path, old_files: Path) -> dict[str, Any]:
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve() / "src")}
    command = [sys.executable, __file__, "--worker", checkout, str(folder), str(old_files)]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    results: dict[str, Any] = json.loads(output)
    return results


def worker(checkout: Path, folder: Path, old_files: Path) -> None:
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    for part in (arrays, sites, tables, learners, plans, read_old_files):
        results |= dict(part(folder, old_files))
    results |= dict(stored_results(checkout))
    print(json.dumps(results))


def find(name: str) -> Any:
    """Return a public name from wherever a version keeps it."""
    for package in PACKAGES:
        with contextlib.suppress(ModuleNotFoundError, AttributeError):
            return getattr(importlib.import_module(package), name)
    raise LookupError(f"no version of metapac has {name}")


def arrays(folder: Path, _: Path) -> Iterator[Result]:
    """Yield what MetaPS, PS and MetaCP find on scores of many kinds."""
    from metapac import PS, MetaPS

    MetaCP = find("MetaCP")  # noqa: N806

    for kind, (scores, tasks, labels) in _data().items():
        for split in ("joint", "tight", "even", 0.2):
            for delta in (DELTA, None):
                options: dict[str, Any] = {"epsilon": EPSILON, "alpha": ALPHA, "delta": delta}
                options["split"] = split
                name = f"arrays {kind} {split} {delta}"
                fitted = MetaPS(**options, on_infeasible="trivial").calibrate(scores, tasks)
                yield name, _fitted(fitted, scores, folder / f"{name}.json")
                fitted = MetaPS(**options, on_infeasible="trivial", per_class=True, min_examples=3)
                fitted = fitted.calibrate(scores, tasks, labels)
                yield f"{name} per class", _fitted(fitted, None, folder / f"{name} classes.json")
        pooled = PS(epsilon=EPSILON, delta=DELTA).calibrate(scores)
        yield f"PS {kind}", _fitted(pooled, scores, folder / f"PS {kind}.json")
        finite = np.isfinite(scores)
        names = dict.fromkeys(tasks[finite].tolist(), 0.0)
        baseline = MetaCP(epsilon=0.3, delta=0.1).calibrate(scores[finite], tasks[finite], names)
        yield f"MetaCP {kind}", _file(baseline, folder / f"MetaCP {kind}.json")


def _data() -> dict[str, tuple[Any, Any, Any]]:
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 400, 300)
    tasks = np.repeat([f"task {i}" for i in range(300)], sizes)
    scores = rng.normal(np.repeat(rng.normal(size=300), sizes))
    labels = rng.integers(0, 3, len(scores))
    shuffled = rng.permutation(len(scores))
    infinite = np.where(rng.random(len(scores)) < 0.02, -np.inf, scores)
    return {
        "float64": (scores, tasks, labels),
        "float32": (scores.astype(np.float32), tasks, labels),
        "float16": (scores.astype(np.float16), tasks, labels),
        "ties": (np.round(scores, 1), tasks, labels),
        "infinite": (infinite, tasks, labels),
        "shuffled": (scores[shuffled], tasks[shuffled], labels[shuffled]),
    }


def _fitted(fitted: Any, scores: Any, path: Path) -> Any:
    decided = None if scores is None else _digest(fitted.predict_set(scores[:, None]))
    attributes = [_digest(getattr(fitted, each, 0)) for each in ("task_thresholds_", "tasks_")]
    return [_file(fitted, path), decided, *attributes, repr(getattr(fitted, "level_", None))]


def _file(fitted: Any, path: Path) -> Any:
    fitted.save(path)
    document = json.loads(path.read_text())
    return {name: value for name, value in document.items() if name not in WORDING}


def _digest(array: Any) -> str:
    values = np.asarray(array)
    content = str(values.tolist()) if values.dtype.kind == "O" else values.tobytes()
    raw = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()[:16]


def _write_table(folder: Path) -> Path:
    from pyarrow import csv, parquet, table

    scores, tasks, labels = _data()["float64"]
    rng = np.random.default_rng(1)
    columns = {f"p_{k}": rng.normal(size=len(scores)) for k in range(3)}
    for k in range(3):
        columns[f"p_{k}"] = np.where(labels == k, scores, columns[f"p_{k}"])
    whole = table({"site": tasks, "y": labels.astype(str), "s": scores, **columns})
    parquet.write_table(whole, folder / "scores.parquet")
    csv.write_csv(whole, folder / "scores.csv")
    return folder / "scores.parquet"


def _table_verbs() -> tuple[Any, ...]:
    """Return calibrate, predict, evaluate and site for tables, in versions before and after 0.3."""
    import metapac

    if not hasattr(metapac, "open_table"):
        from metapac import tables

        names = ("calibrate_table", "predict_table", "evaluate_table", "site_table")
        return tuple(getattr(tables, name) for name in names)

    def open_(source: str, options: dict[str, Any]) -> Any:
        named = {
            name: options.pop(name) for name in [*options] if name in ("task", "score", "label")
        }
        return metapac.open_table(source, metapac.Columns(**named))

    def calibrate(source: str, **options: Any) -> Any:
        table = open_(source, options)
        return metapac.MetaPS(**options).calibrate(table)

    def predict(fitted: Any, source: str, **options: Any) -> Any:
        return fitted.predict(open_(source, options), **options)

    def evaluate(fitted: Any, source: str, **options: Any) -> Any:
        return metapac.evaluate(fitted, open_(source, options), **options)

    def site(source: str, *, name: str, **options: Any) -> Any:
        table = open_(source, options)
        return metapac.make_site(metapac.MetaPS(**options), table, name=name)

    return calibrate, predict, evaluate, site


def sites(folder: Path, _: Path) -> Iterator[Result]:
    """Yield the files of sites, and what is found from them together."""
    site_table = _table_verbs()[3]
    combine_sites = find("combine_sites")
    _write_table(folder)
    guarantee: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.5, "delta": 0.5}
    paths = []
    for i in range(12):
        site = site_table(str(folder / "scores.parquet"), name=f"site {i}", score="s", **guarantee)
        site.save(folder / f"site{i}.json")
        paths.append(folder / f"site{i}.json")
    document = json.loads(paths[0].read_text())
    yield "site file", {k: v for k, v in document.items() if k not in WORDING}
    yield "sites", _file(combine_sites(paths), folder / "combined.json")


def tables(folder: Path, _: Path) -> Iterator[Result]:
    """Yield what tables give: thresholds, sets and evaluations."""
    calibrate_table, predict_table, evaluate_table, _site_table = _table_verbs()
    guarantee: dict[str, Any] = {"epsilon": EPSILON, "alpha": ALPHA, "delta": DELTA}
    for kind in ("parquet", "csv"):
        source = str(folder / f"scores.{kind}")
        choices: list[dict[str, Any]] = [{"score": "s"}, {"label": "y"}]
        for columns in choices:
            for split in ("joint", "even"):
                name = f"table {kind} {'-'.join(columns)} {split}"
                fitted = calibrate_table(
                    source,
                    task="site",
                    **columns,
                    split=split,
                    **guarantee,
                    on_infeasible="trivial",
                )
                yield name, _file(fitted, folder / f"{name}.json")
        output = folder / f"sets.{kind}"
        predict_table(fitted, source, output=output)
        yield f"sets {kind}", _table_digest(output)
        evaluation = evaluate_table(fitted, source, allow=("overlap",))
        yield f"evaluation {kind}", [_digest(evaluation.errors), _digest(evaluation.sizes)]


def _table_digest(path: Path) -> str:
    from pyarrow import csv, parquet

    table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    return _digest(np.array(str(table.to_pydict()), dtype=object))


def learners(folder: Path, _: Path) -> Iterator[Result]:
    """Yield the scores of a prototype network on drawn characters."""
    names = ("Conv4", "ProtoNet", "glyphs", "score_tasks", "split_classes")
    conv4, proto_net, glyphs, score_tasks, split_classes = map(find, names)
    x, y, _names = glyphs(characters=30, rng=0)
    pools = split_classes(x, y, train=10, validation=5, calibration=10, test=5, rng=0)
    learner = proto_net(conv4(channels=1, size=28, width=8, rng=0))
    drawn = pools.calibration.tasks(20, ways=5, shots=5, queries=10, rng=0)
    scores, names = score_tasks(learner, drawn)
    yield "scores of a ProtoNet", [_digest(scores), _digest(names)]


def plans(folder: Path, _: Path) -> Iterator[Result]:
    """Yield how much data guarantees need."""
    from metapac import allowed_errors, clopper_pearson_upper, plan

    for split in ("joint", "tight", "even"):
        for delta in (1e-5, 0.05, None):
            asked = plan(epsilon=EPSILON, alpha=ALPHA, delta=delta, split=split)
            yield f"plan {split} {delta}", [asked.tasks, asked.examples_per_task]
    n = np.arange(0, 3000, 7)
    yield "allowed errors", _digest(allowed_errors(n, EPSILON, DELTA))
    yield "upper bounds", _digest(clopper_pearson_upper(n // 9, n + 1, DELTA))


def read_old_files(_: Path, old_files: Path) -> Iterator[Result]:
    """Yield what files of the old version hold."""
    from metapac import load

    for path in sorted(old_files.glob("*.json")):
        if path.name.startswith("site"):
            continue
        loaded = load(path)
        cut = getattr(loaded, "thresholds_", getattr(loaded, "threshold_", None))
        yield f"read {path.name}", [repr(np.asarray(cut).tolist()), loaded.precision_.name]
    combined = find("combine_sites")(sorted(old_files.glob("site*.json")))
    yield "read sites", repr(combined.threshold_)


def stored_results(checkout: Path) -> Iterator[Result]:
    """Yield the summaries of stored runs."""
    read_guarantee, read_rows, summarise = map(find, ("read_guarantee", "read_rows", "summarise"))
    for settings in sorted((checkout / "experiments" / "results").rglob("evaluation.json")):
        guarantee = read_guarantee(settings.parent)
        lines = summarise(read_rows(settings.parent), guarantee)
        yield f"stored {settings.parent.name}", [repr(line) for line in lines]


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(*map(Path, sys.argv[2:]))
    else:
        sys.exit(main(*sys.argv[1:]))
