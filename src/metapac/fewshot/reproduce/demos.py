"""The two demonstrations: glyphs for few-shot learning, states for sites."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from metapac import artefact, plots
from metapac._common import (
    Array,
    Counts,
    Floats,
    PathLike,
    Progress,
    as_whole_number,
    ignore_progress,
    require,
    warn,
)
from metapac._text import format_table
from metapac._version import __version__
from metapac.context import Context
from metapac.errors import MissingExtra
from metapac.evaluation import Evaluation, evaluate
from metapac.fewshot.datasets.glyphs import glyphs
from metapac.fewshot.pools import ClassPool, Pools, split_classes
from metapac.fewshot.reproduce import figures
from metapac.fewshot.reproduce.experiments import Experiment, Training
from metapac.fewshot.study.draws import SyntheticStudy
from metapac.fewshot.study.methods import META_PS, PS, PS_TEST, Method
from metapac.fewshot.study.pool_study import PoolStudy
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import run_study
from metapac.fewshot.study.summary import Summary, summarise
from metapac.grouping import Scored
from metapac.guarantee import Guarantee, format_share, percent
from metapac.heart_sites import LABELS, read_sample
from metapac.planning import min_sample_size
from metapac.plots import INK, LIMIT, create_figure, save
from metapac.predictors import MetaPS
from metapac.report.builder import SignOff, report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from metapac.fewshot.training.history import Epoch

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
METHODS = (
    Method("PS", PS, GUARANTEE),
    Method("PS-Test", PS_TEST, GUARANTEE),
    Method("Meta-PS even", META_PS, replace(GUARANTEE, split="even")),
    Method("Meta-PS joint", META_PS, GUARANTEE),
)
CHARACTERS = {"train": 240, "validation": 40, "calibration": 60, "test": 60}
TRAINING = Training(
    lr=1e-3, episodes_per_epoch=60, epochs=12, episodes_per_step=2, validation_tasks=50
)
EXPERIMENT = Experiment(
    name="demo",
    title="Unseen characters, 5 ways, 5 shots: 250 calibration tasks of 250 examples",
    data="glyphs",
    backbone="conv4",
    training=TRAINING,
    calibration_examples=50,
    evaluation_examples=30,
    labelled_examples=20,
    calibration_tasks=250,
    guarantee=GUARANTEE,
)
SYNTHETIC_TITLE = "Synthetic tasks: 500 calibration tasks of 1000 examples"
_PICTURES = 16
_COLUMNS = ("draw", "method", "task", "threshold", "error", "size")


@dataclass(frozen=True, eq=False)
class GlyphDemo:
    """A trained learner and the characters that it has not seen."""

    study: PoolStudy
    pools: Pools[ClassPool]
    names: list[str]
    accuracy: float


def prepare_glyphs(rng: int, on_epoch: Callable[[Epoch], None] | None = None) -> GlyphDemo:
    """Draw characters, train a ProtoNet on the CPU, and embed the characters not seen."""
    from metapac.fewshot.learners.accuracy import accuracy
    from metapac.fewshot.learners.networks import Conv4
    from metapac.fewshot.learners.protonet import ProtoNet
    from metapac.fewshot.training.loop import train

    e = EXPERIMENT
    x, y, names = glyphs(characters=sum(CHARACTERS.values()), rng=rng)
    pools = split_classes(x, y, **CHARACTERS, rng=rng)
    learner = ProtoNet(Conv4(channels=1, size=28, rng=rng))
    settings = {**e.task_shape, **asdict(TRAINING)}
    train(
        learner, pools.train, pools.validation, **settings, device="cpu", rng=rng, on_epoch=on_epoch
    )
    study = PoolStudy(
        learner,
        pools.calibration,
        pools.test,
        **e.task_shape,
        queries=e.calibration_examples,
        test_queries=e.evaluation_examples,
        labelled=e.labelled_examples,
        tasks=e.calibration_tasks,
        tests=e.test_tasks,
    )
    reached = accuracy(learner, pools.test, queries=50, tasks=100)
    return GlyphDemo(study, pools, names, reached.value)


def draw_sets(demo: GlyphDemo, rng: int, path: PathLike) -> None:
    """Draw some examples of one test task with their prediction sets."""
    generator, e = np.random.default_rng(rng), EXPERIMENT
    draw = demo.study.draw(generator)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=1e-5).calibrate(draw.scores, draw.tasks)
    (task,) = demo.pools.test.tasks(1, **e.task_shape, queries=e.test_examples, rng=generator)
    shown = np.sort(generator.choice(len(task.query), _PICTURES, replace=False))
    names = [demo.names[character] for character in demo.pools.test.y[task.support[:: e.shots]]]
    figures.draw_images_with_sets(
        task.query_x[shown],
        task.query_y[shown].tolist(),
        method.predict_set(demo.study.predict_proba(task)[shown]),
        names,
        title=f"A new task, {' '.join(names)}, after {e.shots} examples of each. Above each "
        "picture its true label, below it the prediction set",
        path=path,
    )


def write_results(rows: Rows, folder: Path, title: str, rng: int) -> tuple[Path, Path]:
    """Write the rows as CSV, with seed and version, and the box plots as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    table, picture = folder / "demo.csv", folder / "demo.png"
    columns = [getattr(rows, name).tolist() for name in _COLUMNS]
    with artefact.replacing(table) as file:
        writer = csv.writer(file)
        writer.writerow([*_COLUMNS, "rng", "metapac"])
        writer.writerows([*row, rng, __version__] for row in zip(*columns, strict=True))
    figures.draw_error_and_size(rows, GUARANTEE, title=title, path=picture)
    return table, picture


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
        lines = [
            f"Guarantee: error at most {g.miss_rate:g} on at least {1 - g.alpha:.0%} of tasks, "
            f"with confidence {confidence}.",
            f"\n{self.summary}\n",
            "PS pools all tasks: its error is near epsilon on average, and above it on many tasks. "
            f"PS-Test has 100 labelled examples of the new task itself and needs {needed}, so it "
            "keeps every label. Meta-PS needs none; its joint split, the default, has smaller sets "
            "than the paper's even split.",
        ]
        if self.accuracy is not None:
            lines.append(f"5-way 5-shot accuracy on unseen characters: {self.accuracy:.1%}")
        return "\n".join(lines)


def demonstrate_methods(
    data: str, folder: Path, *, draws: int = 20, rng: int = 0, progress: Progress = ignore_progress
) -> MethodsDemo:
    """Compare four methods on drawn characters ("glyphs") or on synthetic tasks."""
    draws, trained = as_whole_number("draws", draws), None
    if data == "glyphs":
        for module in ("torch", "safetensors"):
            require(module, extra="torch", purpose="the demo with characters")
        progress("drawing characters", 0, None)

        def on_epoch(epoch: Epoch) -> None:
            stage = f"training a ProtoNet, accuracy {epoch.accuracy:.1%}"
            progress(stage, epoch.epoch, TRAINING.epochs)

        trained = prepare_glyphs(rng, on_epoch)
    study: Any = SyntheticStudy() if trained is None else trained.study
    options: dict[str, Any] = {"guarantee": GUARANTEE, "methods": METHODS, "draws": draws}
    rows = run_study(study, **options, rng=rng, progress=progress)
    title = SYNTHETIC_TITLE if trained is None else EXPERIMENT.title
    files = list(write_results(rows, folder, f"{title}; {draws} draws", rng))
    if trained is not None:
        files.append(folder / "sets.png")
        draw_sets(trained, rng, files[-1])
    accuracy = None if trained is None else trained.accuracy
    return MethodsDemo(summarise(rows, GUARANTEE, notes=()), files, accuracy)


EPSILON, ALPHA, DELTA = 0.1, 0.2, 0.05
_TRAIN, _CALIBRATE = 10, 20
_STEPS = 25
_PLAIN, _PER_CLASS = "plain", "per-class"
_COLOURS = {_PLAIN: "#e69f00", _PER_CLASS: "#009e73"}
_KINDS = {"empty": "#d55e00", "single": "#56b4e9", "full": "#bbbbbb"}


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

    def __str__(self) -> str:
        attempts = (self.plain, self.per_class)
        claim, confidence = self.plain.predictor.explain().split("\n\n")[1:3]
        measured = [_measure(attempt.evaluation) for attempt in attempts]
        rows = [
            {f"{len(self.new)} new states": name}
            | {f"{x.name} guarantee": y[name] for x, y in zip(attempts, measured, strict=True)}
            for name in measured[0]
        ]
        misses = {part.label: part for part in self.plain.evaluation.classes or ()}["yes"]
        both = (self.per_class.evaluation.set_shares or {})["full"]
        return (
            f"Who has had a heart attack? {self.frequency:.1%} of the respondents of a US health "
            f"survey have. A logistic regression is trained on {len(self.train)} states. Its sets "
            f"of labels are calibrated on {len(self.known)} others and checked on {len(self.new)} "
            f"more. The plain guarantee:\n\n{claim} {confidence}\n\n{format_table(rows)}\n\n"
            f"The harm: with the plain guarantee, {misses.missed} of {misses.examples} heart "
            "attacks are missed. It is about all respondents together, and most of them had none.\n"
            f"The price: with a guarantee per class, {both:.0%} of the sets contain both labels. "
            "There the model cannot tell, and a person has to."
        )


def _measure(evaluation: Evaluation) -> dict[str, str]:
    """Return what the table shows of a guarantee."""
    shares, sizes, verdict = evaluation.set_shares, evaluation.sizes, evaluation.verdict
    assert shares is not None
    assert sizes is not None
    assert verdict is not None
    missed = {part.label: part.error for part in evaluation.classes or ()}
    allowed = percent(EPSILON)
    of_all = int(evaluation.missed.sum()) / int(evaluation.examples.sum())
    return {
        "allowed to miss": allowed if evaluation.by_class is None else f"{allowed} of each class",
        "missed, of all respondents": format_share(of_all),
        "missed, of heart attacks": format_share(missed["yes"]),
        "missed, of the others": format_share(missed["no"]),
        "labels in a set, mean over states": f"{np.mean(sizes):.2f}",
        "sets without a label": format_share(shares["empty"]),
        "sets with one label": format_share(shares["single"]),
        "sets with both labels": format_share(shares["full"]),
        "verdict on the guarantee": verdict.status,
    }


def demonstrate_sites(
    folder: Path, *, rng: int = 0, progress: Progress = ignore_progress
) -> tuple[SitesDemo, list[Path]]:
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
        warn(f"{error}. Without it, the demo writes no reports.")
    return demo, files


def compare_guarantees(rng: int) -> SitesDemo:
    """Train on ten states, calibrate two guarantees on twenty others, check them on the rest.

    Only 2021 is used: a state that was asked in two years is not two independent tasks.
    """
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
    plain, per_class = (
        _attempt(name, calibration, test, train.tolist()) for name in (_PLAIN, _PER_CLASS)
    )
    frequency = float(np.mean(calibration.labels == "yes"))
    return SitesDemo(train, known, new, frequency, plain, per_class, test)


def _attempt(name: str, calibration: Scored, test: Scored, train: list[str]) -> Attempt:
    """Calibrate a guarantee on some states and evaluate it on others."""
    about = Context(
        model="logistic regression", trained_on=train, unit="state", example="respondent"
    )
    method = MetaPS(epsilon=EPSILON, alpha=ALPHA, delta=DELTA, per_class=name == _PER_CLASS)
    known, new = ((data.scores, data.tasks, data.labels) for data in (calibration, test))
    method.calibrate(*known, classes=LABELS, context=about)
    yes = (column[test.labels == "yes"] for column in new)
    return Attempt(name, method, evaluate(method, *new), evaluate(method, *yes))


def fit_logistic(x: Floats, y: Counts) -> Callable[[Floats], Floats]:
    """Fit a logistic regression by Newton's method.

    A ridge penalty of one observation keeps it finite where a column separates the labels.
    """
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
    paths = [Path(folder) / "plain.html", Path(folder) / "per_class.html"]
    question = "Who has had a heart attack?"
    titles = (question, f"{question} A guarantee for each answer")
    for path, title in zip(paths, titles, strict=True):
        report(path.with_suffix(".json"), demo.test, output=path, title=title, sign_off=_DATA)
    return paths


def draw_comparison(demo: SitesDemo, path: PathLike) -> None:
    """Draw the miss rates of each new state, over all respondents and over heart attacks."""
    figure, axes = create_figure(3, width=11, height=4.2)
    attempts = (demo.plain, demo.per_class)
    for attempt in attempts:
        _draw_rates(axes[0], attempt.name, attempt.evaluation)
        _draw_rates(axes[1], attempt.name, attempt.of_yes)
    axes[0].set_title("missed, of all respondents", fontsize=10)
    axes[1].set_title("missed, of those with a heart attack", fontsize=10)
    for ax in axes[:2]:
        ax.axhline(
            EPSILON, color=LIMIT, linewidth=1, linestyle="--", label=f"allowed: {EPSILON:.0%}"
        )
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("new states, in ascending order")
        ax.set_xticks([])
    axes[0].legend(fontsize=9, frameon=False)
    _draw_kinds(axes[2], attempts)
    for ax in axes:
        ax.yaxis.set_major_formatter("{x:.0%}")
    save(figure, path)


def _draw_rates(axes: Axes, name: str, evaluation: Evaluation) -> None:
    """Draw the miss rate of each state with its exact interval."""
    order = np.argsort(evaluation.errors, kind="stable")
    ends = [end[order] for end in (evaluation.errors, evaluation.low, evaluation.high)]
    style: dict[str, Any] = {"color": _COLOURS[name], "markersize": 4, "linewidth": 1}
    plots.draw_intervals(axes, np.arange(len(order)), *ends, label=f"{name} guarantee", **style)


def _draw_kinds(axes: Axes, attempts: tuple[Attempt, ...]) -> None:
    """Draw the shares of empty sets and of sets with one label and with both."""
    names = {"empty": "no label", "single": "one label", "full": "both labels"}
    bottom = np.zeros(len(attempts))
    for kind, colour in _KINDS.items():
        shares = [(attempt.evaluation.set_shares or {})[kind] for attempt in attempts]
        bars = axes.bar(
            [attempt.name for attempt in attempts],
            shares,
            bottom=bottom,
            color=colour,
            label=names[kind],
            width=0.6,
        )
        shown = [f"{share:.0%}" if share > 0.04 else "" for share in shares]
        axes.bar_label(bars, shown, label_type="center", color=INK, fontsize=9)
        bottom += shares
    axes.set_title("labels in the sets", fontsize=10)
    axes.legend(fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
