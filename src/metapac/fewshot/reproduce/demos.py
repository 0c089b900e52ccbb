"""The demonstrations: methods on glyphs or synthetic tasks, guarantees on states."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from metapac import _common, artefact, plots
from metapac._common import Array, Counts, Floats, PathLike, Progress, ignore_progress
from metapac._text import format_table
from metapac._version import __version__
from metapac.context import Context
from metapac.errors import InvalidInput, MissingExtra, keyword
from metapac.evaluation import Evaluation, evaluate
from metapac.fewshot.datasets.glyphs import glyphs
from metapac.fewshot.pools import split_classes
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, Training
from metapac.fewshot.study import figures
from metapac.fewshot.study.draws import SyntheticStudy
from metapac.fewshot.study.methods import paper_methods
from metapac.fewshot.study.pool_study import PoolStudy
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import run_study
from metapac.fewshot.study.summary import Summary, summarise
from metapac.grouping import Scored
from metapac.guarantee import Guarantee, format_share, percent
from metapac.heart_sites import LABELS, read_sample
from metapac.planning import min_sample_size
from metapac.predictors import MetaPS
from metapac.report.builder import SignOff, report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
_SHOWN = ("PS", "PS-Test", "Meta-PS even", "Meta-PS joint")
METHODS = tuple(method for method in paper_methods(GUARANTEE) if method.name in _SHOWN)
CHARACTERS = {"train": 240, "validation": 40, "calibration": 60, "test": 60}
TRAINING = Training(1e-3, 60, epochs=12, episodes_per_step=2, validation_tasks=50)
_TITLE = "Unseen characters, 5 ways, 5 shots: 250 calibration tasks of 250 examples"
EXPERIMENT = replace(EXPERIMENTS["glyphs"], title=_TITLE, calibration_tasks=250)
SYNTHETIC_TITLE = "Synthetic tasks: 500 calibration tasks of 1000 examples"
_PICTURES = 16
_COLUMNS = ("draw", "method", "task", "threshold", "error", "size")


def demonstrate(
    data: str | None,
    folder: Path,
    *,
    draws: int | None = None,
    rng: int = 0,
    progress: Progress = ignore_progress,
) -> MethodsDemo | SitesDemo:
    """Run a demonstration: on states ("sites"), characters ("glyphs") or "synthetic" tasks."""
    # By default on characters, or on synthetic tasks if the packages for characters are missing.
    chosen = data or "glyphs"
    _common.check_one_of("data", chosen, ("sites", "glyphs", "synthetic"))
    if chosen == "sites" and draws is not None:
        raise InvalidInput(f"{keyword('draws', draws)} does not apply to data='sites'.")
    if chosen == "sites":
        return _compare_sites(folder, rng, progress)
    if chosen == "glyphs":
        try:
            for module in ("torch", "safetensors"):
                _common.require(module, extra="torch", purpose="the demo with characters")
        except MissingExtra as error:
            if data is not None:
                raise
            _common.warn(f"{error}. Running the demo with synthetic tasks instead.")
            chosen = "synthetic"
    draws = _common.as_whole_number("draws", 20 if draws is None else draws)
    return _compare_methods(chosen, folder, draws, rng, progress)


def prepare_glyphs(rng: int, progress: Progress) -> tuple[PoolStudy, list[str], float]:
    """Train a ProtoNet on characters; return the study of others, their names, its accuracy."""
    from metapac.fewshot.learners.networks import Conv4
    from metapac.fewshot.learners.protonet import ProtoNet
    from metapac.fewshot.scoring import accuracy
    from metapac.fewshot.training.loop import train

    x, y, names = glyphs(characters=sum(CHARACTERS.values()), rng=rng)
    pools = split_classes(x, y, **CHARACTERS, rng=rng)
    learner = ProtoNet(Conv4(channels=1, size=28, rng=rng))
    settings = {**EXPERIMENT.task_shape, **asdict(TRAINING), "device": "cpu", "rng": rng}
    train(learner, pools.train, pools.validation, **settings, progress=progress)
    study = PoolStudy(learner, pools.calibration, pools.test, **EXPERIMENT.study_shape)
    return study, names, accuracy(learner, pools.test, queries=50, tasks=100).value


def draw_sets(study: PoolStudy, names: list[str], rng: int, path: PathLike) -> None:
    generator, e, pool = np.random.default_rng(rng), EXPERIMENT, study.test
    draw = study.draw(generator)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(draw.scores, draw.tasks)
    (task,) = pool.tasks(1, **e.task_shape, queries=e.test_examples, rng=generator)
    shown = np.sort(generator.choice(len(task.query), _PICTURES, replace=False))
    sets = method.predict_set(study.predict_proba(task)[shown])
    of_task = [names[character] for character in pool.y[task.support[:: e.shots]]]
    title = (
        f"A new task, {' '.join(of_task)}, after {e.shots} examples of each. Above each picture "
        "its true label, below it the prediction set"
    )
    images, labels = task.query_x[shown], task.query_y[shown].tolist()
    figures.draw_images_with_sets(images, labels, sets, of_task, title=title, path=path)


def write_results(rows: Rows, folder: Path, title: str, rng: int) -> list[Path]:
    """Write the rows as CSV, with seed and version, and the box plots as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    table, picture = folder / "demo.csv", folder / "demo.png"
    columns = (getattr(rows, name).tolist() for name in _COLUMNS)
    lines = [[*row, rng, __version__] for row in zip(*columns, strict=True)]
    with artefact.replacing(table) as file:
        csv.writer(file).writerows([[*_COLUMNS, "rng", "metapac"], *lines])
    figures.draw_error_and_size(rows, GUARANTEE, title=title, path=picture)
    return [table, picture]


@dataclass(frozen=True, eq=False)
class MethodsDemo:
    """Four ways to choose a threshold, compared over many calibration draws."""

    summary: Summary
    files: list[Path]
    accuracy: float | None = None

    def __str__(self) -> str:
        g = GUARANTEE
        needed = min_sample_size(g.miss_rate, g.failure_probability)
        confidence = percent(g.failure_probability, complement=True)
        reached = f"\n5-way 5-shot accuracy on unseen characters: {self.accuracy or 0:.1%}"
        return (
            f"Guarantee: error at most {g.miss_rate:g} on at least {1 - g.alpha:.0%} of tasks, "
            f"with confidence {confidence}.\n\n{self.summary}\n\n"
            "PS pools all tasks: its error is near epsilon on average, and above it on many tasks. "
            f"PS-Test has 100 labelled examples of the new task itself and needs {needed}, so it "
            "keeps every label. Meta-PS needs none; its joint split, the default, has smaller sets "
            f"than the paper's even split.{'' if self.accuracy is None else reached}"
        )


def _compare_methods(
    data: str, folder: Path, draws: int, rng: int, progress: Progress
) -> MethodsDemo:
    study: Any = SyntheticStudy()
    title, accuracy = SYNTHETIC_TITLE, None
    if data == "glyphs":
        progress("drawing characters", 0, None)
        title, (study, names, accuracy) = EXPERIMENT.title, prepare_glyphs(rng, progress)
    options: Any = {"guarantee": GUARANTEE, "methods": METHODS, "draws": draws, "rng": rng}
    rows = run_study(study, **options, progress=progress)
    files = write_results(rows, folder, f"{title}; {draws} draws", rng)
    if data == "glyphs":
        files.append(folder / "sets.png")
        draw_sets(study, names, rng, files[-1])
    return MethodsDemo(summarise(rows, GUARANTEE, notes=()), files, accuracy)


EPSILON, ALPHA, DELTA = 0.1, 0.2, 0.05
_TRAIN, _CALIBRATE = 10, 20
_STEPS = 25
_PLAIN, _PER_CLASS = "plain", "per-class"
_COLOURS = {_PLAIN: "#e69f00", _PER_CLASS: "#009e73"}
_KINDS = {"empty": ("no label", "#d55e00"), "single": ("one label", "#56b4e9")}
_KINDS |= {"full": ("both labels", "#bbbbbb")}


@dataclass(frozen=True, eq=False)
class Attempt:
    """One guarantee, calibrated, and compared with the new states."""

    name: str
    predictor: MetaPS
    evaluation: Evaluation
    of_yes: Evaluation


@dataclass(frozen=True, eq=False)
class SitesDemo:
    """A plain guarantee and a guarantee per class, for the same model and states."""

    train: Array
    known: Array
    new: Array
    frequency: float
    plain: Attempt
    per_class: Attempt
    test: Scored
    files: Sequence[Path] = ()

    def __str__(self) -> str:
        attempts = (self.plain, self.per_class)
        claim, confidence = self.plain.predictor.explain().split("\n\n")[1:3]
        measured = {f"{each.name} guarantee": _measure(each.evaluation) for each in attempts}
        rows = [
            {f"{len(self.new)} new states": name} | {k: x[name] for k, x in measured.items()}
            for name in _measure(self.plain.evaluation)
        ]
        misses = {part.label: part for part in self.plain.evaluation.classes or ()}["yes"]
        both = (self.per_class.evaluation.set_shares or {})["full"]
        show = "\n\nIn full, with its limits: metapac show "
        more = [show + shlex.quote(str(path)) for path in self.files[1:2]]
        return (
            f"Who has had a heart attack? {self.frequency:.1%} of the respondents of a US health "
            f"survey have. A logistic regression is trained on {len(self.train)} states. Its sets "
            f"of labels are calibrated on {len(self.known)} others and checked on {len(self.new)} "
            f"more. The plain guarantee:\n\n{claim} {confidence}\n\n{format_table(rows)}\n\n"
            f"The harm: with the plain guarantee, {misses.missed} of {misses.examples} heart "
            "attacks are missed. It is about all respondents together, and most of them had none.\n"
            f"The price: with a guarantee per class, {both:.0%} of the sets contain both labels. "
            f"There the model cannot tell, and a person has to.{''.join(more)}"
        )


def _measure(evaluation: Evaluation) -> dict[str, str]:
    found: Any = evaluation  # of labelled sets, so that it has shares, sizes and a verdict
    shares, missed = found.set_shares, {part.label: part.error for part in found.classes}
    of_all = int(found.missed.sum()) / int(found.examples.sum())
    return {
        "allowed to miss": percent(EPSILON) + ("" if found.by_class is None else " of each class"),
        "missed, of all respondents": format_share(of_all),
        "missed, of heart attacks": format_share(missed["yes"]),
        "missed, of the others": format_share(missed["no"]),
        "labels in a set, mean over states": f"{np.mean(found.sizes):.2f}",
        "sets without a label": format_share(shares["empty"]),
        "sets with one label": format_share(shares["single"]),
        "sets with both labels": format_share(shares["full"]),
        "verdict on the guarantee": found.verdict.status,
    }


def _compare_sites(folder: Path, rng: int, progress: Progress) -> SitesDemo:
    """Compare a plain guarantee with one per class, and write promises, figure and reports."""
    progress("calibrating two guarantees", 0, None)
    demo = compare_guarantees(rng)
    files = [*save_promises(demo, folder), folder / "sites.png"]
    progress("drawing the figure", 0, None)
    draw_comparison(demo, files[-1])
    progress("writing the reports", 0, None)
    try:
        files += write_reports(demo, folder)
    except MissingExtra as error:
        _common.warn(f"{error}. Without it, the demo writes no reports.")
    return replace(demo, files=files)


def compare_guarantees(rng: int) -> SitesDemo:
    """Train on ten states, calibrate two guarantees on twenty others, check them on the rest."""
    # Only 2021 is used: a state that was asked in two years is not two independent tasks.
    sample = read_sample()
    shuffled = np.random.default_rng(rng).permutation(sample.states)
    train, known, new = np.split(shuffled, [_TRAIN, _TRAIN + _CALIBRATE])
    rows = sample.find_rows(train)
    predict = fit_logistic(sample.x[rows], sample.y[rows])

    def score(states: Array) -> Scored:
        rows = sample.find_rows(states)
        labels = np.array(LABELS)[sample.y[rows]]
        return Scored(predict(sample.x[rows]), sample.state[rows], labels, LABELS)

    calibration, test = score(known), score(new)
    about = Context(
        model="logistic regression", trained_on=train.tolist(), unit="state", example="respondent"
    )
    plain, each = (_attempt(name, calibration, test, about) for name in (_PLAIN, _PER_CLASS))
    frequency = float(np.mean(calibration.labels == "yes"))
    return SitesDemo(train, known, new, frequency, plain, each, test)


def _attempt(name: str, calibration: Scored, test: Scored, about: Context) -> Attempt:
    method = MetaPS(epsilon=EPSILON, alpha=ALPHA, delta=DELTA, per_class=name == _PER_CLASS)
    known, new = ((data.scores, data.tasks, data.labels) for data in (calibration, test))
    method.calibrate(*known, classes=LABELS, context=about)
    yes = (column[test.labels == "yes"] for column in new)
    return Attempt(name, method, evaluate(method, *new), evaluate(method, *yes))


def fit_logistic(x: Floats, y: Counts) -> Callable[[Floats], Floats]:
    """Fit a logistic regression by Newton's method, with a ridge penalty of one observation."""
    centre, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)

    def design(x: Floats) -> Floats:
        return np.column_stack([np.ones(len(x)), (x - centre) / scale])  # (n, d + 1)

    columns = design(x)
    penalty = np.diag([0.0, *np.ones(x.shape[1])])
    weights = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        p = special.expit(columns @ weights)  # (n,)
        gradient = columns.T @ (y - p) - penalty @ weights
        hessian = (columns * (p * (1 - p))[:, None]).T @ columns + penalty
        weights += np.linalg.solve(hessian, gradient)

    def predict_proba(x: Floats) -> Floats:
        margin = design(x) @ weights
        return np.column_stack([special.expit(-margin), special.expit(margin)])

    return predict_proba


def save_promises(demo: SitesDemo, folder: PathLike) -> list[Path]:
    """Write the two promise files, for ``metapac show``."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / "plain.json", Path(folder) / "per_class.json"]
    for attempt, path in zip((demo.plain, demo.per_class), paths, strict=True):
        attempt.predictor.save(path)
    return paths


_DATA = SignOff(population="Adults in US states and territories (CDC)", dates="2021")


def write_reports(demo: SitesDemo, folder: PathLike) -> list[Path]:
    """Write a report on each of the two promise files."""
    question = "Who has had a heart attack?"
    titles = {"plain": question, "per_class": f"{question} A guarantee for each answer"}
    paths = {Path(folder) / f"{name}.html": title for name, title in titles.items()}
    for path, title in paths.items():
        report(path.with_suffix(".json"), demo.test, output=path, title=title, sign_off=_DATA)
    return list(paths)


def draw_comparison(demo: SitesDemo, path: PathLike) -> None:
    """Draw the miss rates of each new state, over all respondents and over heart attacks."""
    figure, axes = plots.create_figure(3, width=11, height=4.2)
    for attempt in (demo.plain, demo.per_class):
        _draw_rates(axes[0], attempt.name, attempt.evaluation)
        _draw_rates(axes[1], attempt.name, attempt.of_yes)
    for ax, who in zip(axes, ("all respondents", "those with a heart attack"), strict=False):
        ax.axhline(EPSILON, **plots.LIMIT_LINE, label=f"allowed: {EPSILON:.0%}")
        ax.set_title(f"missed, of {who}", fontsize=10)
        ax.set(ylim=(-0.02, 1.02), xlabel="new states, in ascending order", xticks=[])
    axes[0].legend(fontsize=9, frameon=False)
    _draw_kinds(axes[2], (demo.plain, demo.per_class))
    for ax in axes:
        ax.yaxis.set_major_formatter("{x:.0%}")
    plots.save(figure, path)


def _draw_rates(axes: Axes, name: str, evaluation: Evaluation) -> None:
    """Draw the miss rate of each state with its exact interval."""
    order = np.argsort(evaluation.errors, kind="stable")
    ends = [end[order] for end in (evaluation.errors, evaluation.low, evaluation.high)]
    style: dict[str, Any] = {"color": _COLOURS[name], "markersize": 4, "linewidth": 1}
    plots.draw_intervals(axes, np.arange(len(order)), *ends, label=f"{name} guarantee", **style)


def _draw_kinds(axes: Axes, attempts: tuple[Attempt, ...]) -> None:
    """Draw the shares of empty sets and of sets with one label and with both."""
    names, bottom = [attempt.name for attempt in attempts], np.zeros(len(attempts))
    for kind, (label, colour) in _KINDS.items():
        shares = [(attempt.evaluation.set_shares or {})[kind] for attempt in attempts]
        style: dict[str, Any] = {"color": colour, "label": label, "width": 0.6}
        bars = axes.bar(names, shares, bottom=bottom.copy(), **style)
        shown = [f"{share:.0%}" if share > 0.04 else "" for share in shares]
        axes.bar_label(bars, shown, label_type="center", color=plots.INK, fontsize=9)
        bottom += shares
    axes.set_title("labels in the sets", fontsize=10)
    axes.legend(fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
