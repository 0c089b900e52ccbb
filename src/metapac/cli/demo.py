"""``metapac demo``: four methods side by side, in a table and in figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from metapac import _optional
from metapac._checks import check_one_of
from metapac.cli.console import make_table, print_line, stdout
from metapac.cli.options import Rng
from metapac.cli.progress import progress_bar
from metapac.demands import min_sample_size
from metapac.evaluation import Rows, Study, Summary, SyntheticStudy, evaluate, summarise
from metapac.reproduce.demo import (
    EXPERIMENT,
    GUARANTEE,
    METHODS,
    SYNTHETIC_TITLE,
    draw_sets,
    prepare_glyphs,
    write_results,
)
from metapac.sentences import percent

if TYPE_CHECKING:
    from metapac.reproduce.demo import GlyphDemo


def demo(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder for the table and the figures."
        ),
    ] = Path("metapac-demo"),
    data: Annotated[
        str,
        typer.Option(
            metavar="glyphs|synthetic",
            help="Images of characters (needs the extra torch), or synthetic tasks.",
        ),
    ] = "glyphs",
    draws: Annotated[int, typer.Option(min=1, help="Number of calibration draws.")] = 20,
    rng: Rng = 0,
) -> None:
    """Compare ways to choose a threshold, in a table and in figures.

    Trains a few-shot learner on some characters, calibrates on a second set of characters and
    evaluates on a third; this takes a few minutes. --data synthetic takes seconds and needs no
    torch.

    Example:

        metapac demo --data synthetic
    """
    check_one_of("data", data, ("glyphs", "synthetic"))
    _require_extras(data)
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
    print_line(_explanation())
    print_line("\nFiles: " + ", ".join(map(str, files)))


def _require_extras(data: str) -> None:
    """Fail fast: check the optional dependencies before the work."""
    _optional.require("matplotlib", extra="plot", purpose="metapac demo")
    if data == "glyphs":
        _optional.require("torch", extra="torch", purpose="metapac demo")
        _optional.require("safetensors", extra="torch", purpose="metapac demo")


def _train(rng: int) -> GlyphDemo:
    epochs = EXPERIMENT.training.epochs
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
        return evaluate(
            study, guarantee=GUARANTEE, methods=METHODS, draws=draws, rng=rng, progress=progress
        )


def _table(summaries: list[Summary]) -> Table:
    g = GUARANTEE
    title = (
        f"Guarantee: error at most {g.miss_rate:g} on at least {1 - g.alpha:.0%} of tasks, "
        f"with confidence {percent(g.failure_probability, complement=True)}"
    )
    columns = ("mean size", "error, 90th pct", "tasks within", "guarantee")
    table = make_table(["method"], columns, title)
    for line in summaries:
        table.add_row(
            line.method,
            f"{line.size:.2f}",
            f"{line.error_90:.3f}",
            f"{line.tasks_within:.1%}",
            "satisfied" if line.satisfied else "violated",
        )
    return table


def _explanation() -> str:
    needed = min_sample_size(GUARANTEE.miss_rate, GUARANTEE.failure_probability)
    return (
        "PS pools all tasks: its error is near epsilon on average and above it on too many tasks.\n"
        f"PS-Test has the paper's 100 labelled examples of the new task itself and needs {needed}, "
        "so it keeps every label.\n"
        "Meta-PS needs no labelled examples of the new task for calibration. Its joint split, the "
        "default, has smaller sets than the paper's even split."
    )
