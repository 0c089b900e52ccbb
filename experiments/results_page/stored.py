"""Stored results of an experiment: rows, learners and controls of all its training seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from metapac import Guarantee
from metapac.fewshot import summarise
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, Experiment, list_controls
from metapac.fewshot.reproduce.run import control_folder, read_learner
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import TABLE, find_seeds, read_guarantee, read_settings, seed_folder
from metapac.fewshot.study.summary import (
    MIN_SEEDS,
    TOO_FEW,
    WITHIN,
    MethodSummary,
    SizeComparison,
    compare_sizes,
)
from metapac.verdict import VIOLATED

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
NOTES = tomllib.loads((ROOT / "experiments" / "notes.toml").read_bytes().decode())

Key = tuple[str, float]  # a method and its delta


@dataclass(eq=False)
class Evaluation:
    """The rows of an evaluation, for each seed and method, and their summaries.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee it was run at.
    settings : list of dict
        What the rows depend on, for each seed.
    by_seed : list of dict
        For each seed, the rows of each method and delta.
    tasks : list of ndarray, optional
        For each seed, the test task of each row of a method, if draws have them in common. Then
        verdicts count each task once, and each seed by itself.
    """

    guarantee: Guarantee
    settings: list[dict[str, Any]]
    by_seed: list[dict[Key, Rows]]
    tasks: list[NDArray[np.intp]] | None = None
    _lines: dict[Key, MethodSummary] = field(default_factory=dict, init=False, repr=False)

    @property
    def seeds(self) -> int:
        """Number of training seeds."""
        return len(self.by_seed)

    @property
    def draws(self) -> int:
        """Number of calibration draws of each seed."""
        return int(self.settings[0]["draws"])

    @property
    def delta(self) -> float:
        """Delta of the guarantee."""
        return self.guarantee.failure_probability

    @property
    def keys(self) -> list[Key]:
        """The methods with their deltas, in the order in which they were run."""
        return list(self.by_seed[0])

    def rows(self, method: str, delta: float | None = None) -> list[Rows]:
        """Return the rows of a method for each seed, by default at the guarantee's delta."""
        key = (method, self.delta if delta is None else delta)
        return [methods[key] for methods in self.by_seed]

    def line(self, method: str, delta: float | None = None) -> MethodSummary:
        """Return the summary of a method, by default at the guarantee's delta."""
        key = (method, self.delta if delta is None else delta)
        if key not in self._lines:
            self._lines[key] = self._summarise(self.rows(*key))
        return self._lines[key]

    def _summarise(self, by_seed: list[Rows]) -> MethodSummary:
        """Return the summary of a method; its verdict is the one that the page shows."""
        (line,) = summarise(by_seed, self.guarantee)
        if self.tasks is None:
            return line
        verdicts = {
            summarise(replace(rows, draw=tasks), self.guarantee)[0].verdict
            for rows, tasks in zip(by_seed, self.tasks, strict=True)
        }
        return replace(
            line,
            holds=verdicts == {WITHIN},
            violated=verdicts == {VIOLATED},
            too_few=verdicts == {TOO_FEW},
        )

    def lines(self) -> Iterator[MethodSummary]:
        """Yield the summary of each method."""
        return (self.line(*key) for key in self.keys)

    def first_draws(self, count: int) -> Evaluation:
        """Return the evaluation of the first draws of each seed."""
        by_seed = [
            {key: rows.take(rows.draw < count) for key, rows in methods.items()}
            for methods in self.by_seed
        ]
        settings = [{**each, "draws": count} for each in self.settings]
        tasks = self.tasks and [
            each[next(iter(methods.values())).draw < count]
            for each, methods in zip(self.tasks, self.by_seed, strict=True)
        ]
        return Evaluation(self.guarantee, settings, by_seed, tasks)

    def compare(self, first: str, second: str, delta: float | None = None) -> SizeComparison:
        """Return the paired difference of two methods in mean set size."""
        pairs = zip(self.rows(first, delta), self.rows(second, delta), strict=True)
        return compare_sizes([Rows.concatenate(pair) for pair in pairs], first, second)

    @cached_property
    def covers(self) -> str:
        """What the intervals cover, in one sentence."""
        return summarise(self.rows(*self.keys[0]), self.guarantee).covers


@dataclass(eq=False, kw_only=True)
class Result(Evaluation):
    """Everything that is stored of one experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    learners : list of dict
        How the learner of each seed was trained, and how good it is.
    controls : dict from str to Evaluation
        The controls that were run with all seeds.
    """

    experiment: Experiment
    learners: list[dict[str, Any]]
    controls: dict[str, Evaluation]

    @property
    def name(self) -> str:
        """Name of the experiment, and of its folder."""
        return self.experiment.name

    @property
    def title(self) -> str:
        """Title of the experiment."""
        return self.experiment.title

    @property
    def examples_per_task(self) -> int | None:
        """Number of calibration examples of a task; None if groups are used whole."""
        count = self.experiment.calibration_examples
        return None if count is None else count * (self.experiment.ways or 1)

    @property
    def test_examples(self) -> int:
        """Number of examples that the error of a new task is counted on."""
        return self.experiment.evaluation_examples * (self.experiment.ways or 1)

    @property
    def has_seed_intervals(self) -> bool:
        """Whether intervals are over the seeds, so that they cover the training."""
        return self.seeds >= MIN_SEEDS

    @property
    def has_shared_draws(self) -> bool:
        """Whether different draws have tasks in common, because there are few tasks to draw."""
        return self.experiment.tasks_from != "pools" or self.experiment.ways is None

    @property
    def differences(self) -> list[str]:
        """Where the experiment differs from the paper."""
        return list(NOTES.get(self.name, {}).get("differences", []))

    @property
    def published(self) -> list[dict[str, Any]]:
        """Published accuracies of learners like this one, the nearest in kind first."""
        return list(NOTES.get(self.name, {}).get("published", []))

    def pool(self, name: str) -> int:
        """Return the number of classes, relations or groups of a pool."""
        return int(self.learners[0]["pools"][name][0])


def read_results(folder: Path = RESULTS) -> list[Result]:
    """Return the stored results, in the order of the experiments."""
    return [
        read_result(experiment, [seed_folder(folder / experiment.name, seed) for seed in seeds])
        for experiment in EXPERIMENTS.values()
        if (seeds := find_seeds(folder / experiment.name))
    ]


def read_result(experiment: Experiment, seeds: Sequence[Path]) -> Result:
    """Return the stored results of one experiment, from the folders of its seeds."""
    controls = {}
    for control in list_controls(experiment):
        folders = [control_folder(seed, control) for seed in seeds]
        if all((each / TABLE).exists() for each in folders):
            controls[control.name] = read_evaluation(folders)
    main = read_evaluation(seeds)
    if experiment.tasks_from == "bank":
        main.tasks = [find_tasks(methods["oracle", main.delta]) for methods in main.by_seed]
        for each in controls.values():
            each.tasks = main.first_draws(each.draws).tasks
    return Result(
        main.guarantee,
        main.settings,
        main.by_seed,
        main.tasks,
        experiment=experiment,
        learners=[read_learner(seed) for seed in seeds],
        controls=controls,
    )


def find_tasks(oracle: Rows) -> NDArray[np.intp]:
    """Return the test task of each row, as a number.

    Rows do not name the tasks of a bank, but the oracle's threshold depends on the task alone.
    """
    return np.unique(oracle.threshold, return_inverse=True)[1]


def read_evaluation(folders: Sequence[Path]) -> Evaluation:
    """Return an evaluation, from its folder for each seed."""
    return Evaluation(
        read_guarantee(folders[0]),
        [read_settings(folder) for folder in folders],
        [read_methods(folder / TABLE) for folder in folders],
    )


def read_methods(path: Path) -> dict[Key, Rows]:
    """Return the rows of each method and delta, in order of first appearance.

    Arrow reads a table in a tenth of the time that `metapac.fewshot.study.run.read_rows` takes.
    """
    types = dict.fromkeys(("delta", "threshold", "error", "size"), pa.float64())
    types |= dict.fromkeys(("draw", "task", "feasible", "examples", "labels"), pa.int64())
    names = {"method": pa.dictionary(pa.int32(), pa.string())}
    options = csv.ConvertOptions(column_types=types | names)
    table = csv.read_csv(path, convert_options=options).unify_dictionaries().combine_chunks()
    columns = {name: table[name].to_numpy() for name in types}
    columns["feasible"] = columns["feasible"].astype(bool)
    method, delta = table["method"].chunk(0), columns["delta"]
    codes = method.indices.to_numpy()
    found: list[tuple[int, Key, Rows]] = []
    for code, name in enumerate(method.dictionary.to_pylist()):
        for level in np.unique(delta[codes == code]).tolist():
            which = np.flatnonzero((codes == code) & (delta == level))
            parts = {column: values[which] for column, values in columns.items()}
            rows = Rows(**parts, method=np.full(len(which), name))
            found.append((int(which[0]), (name, level), rows))
    return {key: rows for _, key, rows in sorted(found, key=lambda each: each[0])}
