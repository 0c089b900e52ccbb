"""How the files in ``0.2.0`` were made: one small file of every kind that metapac 0.2.0 writes.

Only that version can run this: ``python -m tests.golden.make_0_2_0 FOLDER``. The times in run.json
and in the checkpoint, and the name of the data cache, differ from run to run; nothing else does.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from metapac.learners import MAML, MLP, ProtoNet, save_weights, train
from metapac.scoring import Stored
from metapac.tasks import split_classes
from typer.testing import CliRunner

import metapac
from metapac import PS, MetaCP, MetaPS
from metapac.cli.app import app

LEVELS = ["--epsilon", "0.2", "--alpha", "0.3", "--delta", "0.1"]
CLASSES = ["--label", "y", "--columns", "p_*"]


def run(*words: object) -> None:
    """Run a command in this folder, so that no file holds the path of another."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output


def draw_sites(first: int, count: int, size: int, seed: int) -> pd.DataFrame:
    """Sites with two classes, the scores of both, and a number to predict with its scale."""
    rng = np.random.default_rng(seed)
    rows = count * size
    y, p_true = rng.integers(0, 2, rows), np.round(rng.integers(1, 1000, rows) ** 0.5 / 32, 3)
    p_yes = np.where(y == 1, p_true, 1 - p_true)
    return pd.DataFrame(
        {
            "site": np.repeat([f"site {first + i:02}" for i in range(count)], size),
            "region": np.repeat([f"region_{(first + i) // 2}" for i in range(count)], size),
            "y": np.where(y == 1, "yes", "no"),
            "p_no": 1 - p_yes,
            "p_yes": p_yes,
            "length": rng.integers(0, 1000, rows) / 100,
            "predicted": rng.integers(0, 1000, rows) / 100,
            "scale": rng.integers(1, 5, rows) / 2,
        }
    )


def make_promises() -> None:
    """Write promises, site files, a pilot file and the state of a monitor."""
    draw_sites(0, 40, 30, seed=0).to_csv("sites.csv", index=False)
    draw_sites(50, 12, 30, seed=1).to_csv("new.csv", index=False)
    draw_sites(80, 20, 30, seed=2).to_csv("pilot.csv", index=False)
    by_site = ["calibrate", "sites.csv", "--task", "site", *LEVELS]
    intervals = ["--prediction", "predicted", "--y", "length", "--scale", "scale"]
    weak = ["--epsilon", "0.2", "--alpha", "0.3", "--delta", "none"]
    words = ["--model", "forest 3", "--trained-on", "site 90,site 91", "--unit", "hospital"]
    run(*by_site, *CLASSES, *words, "-o", "joint.json")
    run(*by_site, *CLASSES, "--split", "tight", "-o", "tight.json")
    run(*by_site, *CLASSES, "--per-class", "-o", "per_class.json")
    run(*by_site[:4], *weak, *CLASSES, "-o", "expectation.json")
    run(*by_site, *intervals, "-o", "intervals.json")
    run(*by_site, *CLASSES, "--cluster", "region", "-o", "clusters.json")
    for name, rows in draw_sites(0, 10, 30, seed=0).groupby("region"):
        rows.to_csv("one.csv", index=False)
        run("site", "one.csv", "--name", name, *weak, *CLASSES, "-o", f"{name}.json")
    run("explore", "pilot.csv", "--task", "site", *CLASSES, "--alpha", "0.3", "-o", "pilot.json")
    run("monitor", "joint.json", "new.csv", "--state", "monitor.json", "--batch", "January")
    for path in ("sites.csv", "new.csv", "pilot.csv", "one.csv"):
        Path(path).unlink()


def make_other_promises() -> None:
    """Write promises that only Python writes."""
    rng = np.random.default_rng(3)
    scores, tasks = rng.integers(0, 1000, 1200) / 1000, np.repeat(np.arange(40), 30)
    PS(epsilon=0.2, delta=0.1).calibrate(scores).save("ps.json")
    MetaCP(epsilon=0.4, delta=0.2).calibrate(scores, tasks, np.zeros(40)).save("meta_cp.json")
    method = MetaPS(epsilon={"a": 0.2, "b": 0.3}, alpha=0.3, delta=0.2, per_class=True)
    labels = np.tile(["a", "b"], 600)
    method.calibrate(scores.astype(np.float32), tasks, labels).save("float32.json")


def make_runs() -> None:
    """Write weights, a checkpoint, a training run, its scores, a study and stored scores."""
    rng, y = np.random.default_rng(4), np.repeat(np.arange(20), 12)
    x = (2 * rng.normal(size=(20, 4))[y] + rng.normal(size=(240, 4))).astype(np.float32)
    np.savez("classes.npz", x=x, y=y)
    pools = split_classes(x, y, train=8, validation=4, calibration=4, test=4, rng=0)
    options: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 2, "episodes_per_epoch": 8}
    learner = ProtoNet(MLP(4, width=3, rng=0))
    train(
        learner,
        pools.train,
        pools.validation,
        **options,
        epochs=2,
        validation_tasks=4,
        device="cpu",
        checkpoint="checkpoint",
    )
    save_weights(learner, "protonet.safetensors")
    save_weights(MAML(MLP(4, width=3, rng=0), classes=3), "maml.safetensors")
    small = ["--ways", 3, "--shots", 2, "--queries", 4, "--device", "cpu"]
    short = ["--epochs", 1, "--episodes", 8, "--tasks", 4, "--pools", "8,4,4,4"]
    run("train", "classes.npz", "-o", "run", *small, *short)
    (Path("run") / "checkpoint.safetensors").unlink()  # large, and there is one already
    run("score", "run", "--tasks", 40, "-o", "scored.parquet", *small)
    run(
        *("study", "classes.npz", "-o", "study", "--learner", "prototypes", "--seeds", 1),
        *("--draws", 2, "--tasks", 40, "--tests", 3, "--epsilon", 0.2, "--alpha", 0.3),
        *("--ways", 3, "--shots", 2, "--queries", 6),
    )
    for path in Path("study").glob("*.*"):  # tables and a figure, which metapac never reads
        path.unlink()
    scores = rng.integers(0, 1000, 6) / 1000
    tasks = np.repeat(["ohio", "utah"], 3)
    Stored(scores=scores, tasks=tasks, provenance={"model": "forest 3"}).save("stored.safetensors")


def make_data() -> None:
    """Write the cache of a made-up survey."""
    lines = [
        f"{year},{state},{i % 2},{30 + i},{i % 5}"
        for year in (2021, 2022)
        for state in (1, 39)
        for i in range(6)
    ]
    Path("heart.csv").write_text("\n".join(["year,state,label,age,health", *lines, ""]))
    run("data", "prepare", "heart", "--from", "heart.csv", "--home", "data")
    Path("heart.csv").unlink()


def main(folder: Path) -> None:
    """Write all files into an empty folder."""
    if metapac.__version__ != "0.2.0":
        sys.exit(f"These are the files of metapac 0.2.0, and this is {metapac.__version__}.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    make_promises()
    make_other_promises()
    make_runs()
    make_data()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
