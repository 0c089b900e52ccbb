"""``metapac demo``: the guarantee seen at work in a minute."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table

from metapac._common import check_one_of, require
from metapac.cli.console import (
    make_table,
    print_error,
    print_line,
    print_text,
    progress_bar,
    stdout,
)
from metapac.cli.options import Rng
from metapac.errors import InvalidInput, MissingExtra, keyword
from metapac.evaluation import Evaluation
from metapac.fewshot.reproduce.demos import (
    EPSILON,
    EXPERIMENT,
    GUARANTEE,
    METHODS,
    SYNTHETIC_TITLE,
    TRAINING,
    compare_guarantees,
    draw_comparison,
    draw_sets,
    prepare_glyphs,
    save_promises,
    write_reports,
    write_results,
)
from metapac.fewshot.study.draws import Study, SyntheticStudy
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import run_study
from metapac.fewshot.study.summary import Summary, summarise
from metapac.guarantee import format_share, percent
from metapac.planning import min_sample_size

if TYPE_CHECKING:
    from metapac.fewshot.reproduce.demos import GlyphDemo, SitesDemo

_DRAWS = 20


def demo(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder for the table and the figures."
        ),
    ] = Path("metapac-demo"),
    data: Annotated[
        str | None,
        typer.Option(
            metavar="sites|glyphs|synthetic",
            help="A health survey in 53 states, images of characters (needs the extra torch), or "
            "synthetic tasks. By default characters, and synthetic tasks where torch is not "
            "installed.",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Number of calibration draws, 20 by default; not for sites."),
    ] = None,
    rng: Rng = 0,
) -> None:
    """See what a guarantee says, and what it does not, in a table and in figures.

    --data sites takes seconds: one model for many states, a rare class that the plain guarantee
    lets it miss, and what a guarantee per class costs. The other data compare ways to choose a
    threshold. Characters take a few minutes: a few-shot learner is trained on some, calibrated on
    others and evaluated on a third part. --data synthetic takes seconds; it is also what runs where
    torch is not installed.

    Example:

        metapac demo --data sites
    """
    require("matplotlib", extra="plot", purpose="metapac demo")
    data = _choose_data() if data is None else data
    check_one_of("data", data, ("sites", "glyphs", "synthetic"))
    _require_extras(data)
    if data == "sites":
        if draws is not None:
            raise InvalidInput(
                f"{keyword('draws', draws)} does not apply to the data 'sites'. Leave it out."
            )
        _show_sites(output, rng)
    else:
        _show_methods(data, output, _DRAWS if draws is None else draws, rng)


def _show_methods(data: str, output: Path, draws: int, rng: int) -> None:
    """Compare four methods over many calibration draws."""
    if data == "synthetic":
        rows = _evaluate(SyntheticStudy(), draws, rng)
        files = list(write_results(rows, output, f"{SYNTHETIC_TITLE}; {draws} draws", rng))
    else:
        trained = _train(rng)
        print_line(f"5-way 5-shot accuracy on unseen characters: {trained.accuracy:.1%}")
        rows = _evaluate(trained.study, draws, rng)
        title = f"{EXPERIMENT.title}; {draws} draws"
        files = [*write_results(rows, output, title, rng), output / "sets.png"]
        draw_sets(trained, rng, files[-1])
    stdout.print(_table(summarise(rows, GUARANTEE)))
    for line in [*_explanation().splitlines(), "", f"Files: {', '.join(map(str, files))}"]:
        print_line(line)


def _show_sites(output: Path, rng: int) -> None:
    """Compare a plain guarantee with one per class, on the survey."""
    found = compare_guarantees(rng)
    files = [*save_promises(found, output), output / "sites.png"]
    draw_comparison(found, files[-1])
    print_text(_introduction(found))
    stdout.print(_sites_table(found))
    print_text(_harm_and_price(found))
    reports = _write_reports(found, output)
    for line in ["", f"Files: {', '.join(map(str, files))}"]:
        print_line(line)
    if reports:
        print_line(f"Reports, to open in a browser: {', '.join(map(str, reports))}")
    print_line("In full, with its limits:")
    print_line(f"  metapac show {shlex.quote(str(files[1]))}")


def _write_reports(found: SitesDemo, output: Path) -> list[Path]:
    """Write the reports on both guarantees; say what is missing if they cannot be written."""
    try:
        return write_reports(found, output)
    except MissingExtra as error:
        print_error(f"{error}. Without it, the demo writes no reports.")
        return []


def _introduction(found: SitesDemo) -> str:
    """Return the question, the data, and the plain guarantee in plain words."""
    claim, confidence = found.plain.predictor.explain().split("\n\n")[1:3]
    return (
        f"Who has had a heart attack? {found.frequency:.1%} of the respondents of a US health "
        f"survey have. A logistic regression is trained on {len(found.train)} states. Its sets of "
        f"labels are calibrated on {len(found.known)} others and checked on {len(found.new)} more. "
        f"The plain guarantee:\n\n{claim} {confidence}\n"
    )


def _sites_table(found: SitesDemo) -> Table:
    attempts = (found.plain, found.per_class)
    names = [f"{attempt.name} guarantee" for attempt in attempts]
    table = make_table([f"{len(found.new)} new states"], names)
    columns = [_measure(attempt.evaluation) for attempt in attempts]
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    return table


def _measure(evaluation: Evaluation) -> dict[str, str]:
    """Return what the table shows of a guarantee."""
    shares, sizes, verdict = evaluation.set_shares, evaluation.sizes, evaluation.verdict
    assert shares is not None
    assert sizes is not None
    assert verdict is not None
    missed = {part.label: part.error for part in evaluation.classes or ()}
    allowed = percent(EPSILON)
    return {
        "allowed to miss": allowed if evaluation.by_class is None else f"{allowed} of each class",
        "missed, of all respondents": format_share(
            int(evaluation.missed.sum()) / int(evaluation.examples.sum())
        ),
        "missed, of heart attacks": format_share(missed["yes"]),
        "missed, of the others": format_share(missed["no"]),
        "labels in a set, mean over states": f"{np.mean(sizes):.2f}",
        "sets without a label": format_share(shares["empty"]),
        "sets with one label": format_share(shares["single"]),
        "sets with both labels": format_share(shares["full"]),
        "verdict on the guarantee": verdict.status,
    }


def _harm_and_price(found: SitesDemo) -> str:
    """Return what the plain guarantee lets happen, and what the other one costs."""
    misses = {part.label: part for part in found.plain.evaluation.classes or ()}["yes"]
    both = (found.per_class.evaluation.set_shares or {})["full"]
    return (
        f"The harm: with the plain guarantee, {misses.missed} of {misses.examples} heart attacks "
        "are missed. It is about all respondents together, and most of them had none.\n"
        f"The price: with a guarantee per class, {both:.0%} of the sets contain both labels. "
        "There the model cannot tell, and a person has to."
    )


def _choose_data() -> str:
    """Return the characters, or synthetic tasks if the packages that they need are missing."""
    for module in ("torch", "safetensors"):
        try:
            require(module, extra="torch", purpose="the demo with characters")
        except MissingExtra as error:
            print_error(f"{error}. Running the demo with synthetic tasks instead.")
            return "synthetic"
    return "glyphs"


def _require_extras(data: str) -> None:
    """Fail fast: check the optional dependencies before the work."""
    if data == "glyphs":
        require("torch", extra="torch", purpose="metapac demo")
        require("safetensors", extra="torch", purpose="metapac demo")


def _train(rng: int) -> GlyphDemo:
    epochs = TRAINING.epochs
    with progress_bar() as progress:
        progress("drawing characters", 0, epochs)
        return prepare_glyphs(
            rng,
            lambda epoch: progress(
                f"training a ProtoNet, accuracy {epoch.accuracy:.1%}", epoch.epoch, epochs
            ),
        )


def _evaluate(study: Study, draws: int, rng: int) -> Rows:
    with progress_bar() as progress:
        return run_study(
            study, guarantee=GUARANTEE, methods=METHODS, draws=draws, rng=rng, progress=progress
        )


def _table(summary: Summary) -> Table:
    g = GUARANTEE
    title = (
        f"Guarantee: error at most {g.miss_rate:g} on at least {1 - g.alpha:.0%} of tasks, "
        f"with confidence {percent(g.failure_probability, complement=True)}"
    )
    columns = ("mean size", "error, 90th pct", "tasks within", "guarantee")
    table = make_table(["method"], columns, title)
    for line in summary:
        table.add_row(
            line.method,
            f"{line.size:.2f}",
            f"{line.error_quantile:.3f}",
            f"{line.tasks_within:.1%}",
            line.verdict,
        )
    return table


def _explanation() -> str:
    needed = min_sample_size(GUARANTEE.miss_rate, GUARANTEE.failure_probability)
    return (
        "PS pools all tasks: its error is near epsilon on average, and the observed error is above "
        "it on many tasks. A single task has too few examples to rule out chance, so its verdict "
        "may stay open. 'Observed within' is about observed errors, not the verdict 'holds' of "
        "metapac evaluate.\n"
        f"PS-Test has the paper's 100 labelled examples of the new task itself and needs {needed}, "
        "so it keeps every label.\n"
        "Meta-PS needs no labelled examples of the new task for calibration. Its joint split, the "
        "default, has smaller sets than the paper's even split."
    )
