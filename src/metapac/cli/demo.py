"""``metapac demo``: four ways to choose a threshold, in a table and in pictures."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from metapac import plots
from metapac.cli.common import console, errors, told
from metapac.demands import least_size
from metapac.demo import setting, synthetic
from metapac.evaluation.draws import Study
from metapac.evaluation.rows import Rows
from metapac.evaluation.summary import Summary, summarise
from metapac.evaluation.trials import evaluate
from metapac.sentences import percent

if TYPE_CHECKING:
    from metapac.demo import glyphs


class Data(StrEnum):
    glyphs = "glyphs"
    synthetic = "synthetic"


@told
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")] = Path(
        "metapac-demo"
    ),
    data: Annotated[
        Data, typer.Option(help="Pictures of characters (needs torch), or synthetic tasks.")
    ] = Data.glyphs,
    draws: Annotated[int, typer.Option(min=1, help="Calibration draws.")] = 20,
    rng: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
) -> None:
    """Compare PS, PS-Test and Meta-PS: train, calibrate on unseen classes, judge on others."""
    plots.new_figure(1, width=1, height=1)  # a missing matplotlib is said before the work
    if data == Data.synthetic:
        known = synthetic.Study()
        rows = _evaluate(known, draws, rng)
        files = list(setting.write(rows, output, f"{known.title}; {draws} draws", rng))
    else:
        from metapac.demo import glyphs

        study = _train(rng)
        console.print(f"5-way 5-shot accuracy on unseen characters: {study.accuracy:.1%}")
        rows = _evaluate(study, draws, rng)
        title = f"{glyphs.TITLE}; {draws} draws"
        files = [*setting.write(rows, output, title, rng), output / "sets.png"]
        glyphs.draw_sets(study, rng, files[-1])
    console.print(_table(summarise(rows, setting.GUARANTEE)))
    console.print(_explanation(), markup=False, soft_wrap=True)
    console.print("\nFiles: " + ", ".join(map(str, files)), markup=False, soft_wrap=True)


def _train(rng: int) -> glyphs.Study:
    from metapac.demo import glyphs

    with _bar() as bar:
        job = bar.add_task("Drawing characters", total=glyphs.EPOCHS)
        return glyphs.prepare(
            rng,
            lambda epoch: bar.update(
                job,
                completed=epoch.epoch,
                description=f"Training a ProtoNet, accuracy {epoch.accuracy:.1%}",
            ),
        )


def _evaluate(study: Study, draws: int, rng: int) -> Rows:
    with _bar() as bar:
        job = bar.add_task("Calibrating", total=draws)
        return evaluate(
            study,
            guarantee=setting.GUARANTEE,
            methods=setting.METHODS,
            draws=draws,
            rng=rng,
            progress=lambda done: bar.update(job, completed=done),
        )


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)


def _table(summaries: list[Summary]) -> Table:
    g = setting.GUARANTEE
    table = Table(
        title=f"Guarantee: error at most {g.miss_rate:g} on at least {1 - g.alpha:.0%} of tasks, "
        f"with confidence {percent(g.failure_probability, but=True)}",
        title_justify="left",
    )
    table.add_column("method")
    for name in ("mean size", "error, 90th pct", "tasks within", "guarantee"):
        table.add_column(name, justify="right")
    for each in summaries:
        table.add_row(
            each.method,
            f"{each.size:.2f}",
            f"{each.error_90:.3f}",
            f"{each.tasks_within:.1%}",
            "kept" if each.kept else "broken",
        )
    return table


def _explanation() -> str:
    g = setting.GUARANTEE
    return (
        "PS pools all tasks: near epsilon on average, above it on too many tasks.\n"
        f"PS-Test has the paper's {setting.OWN_EXAMPLES} labels of the new task itself and needs "
        f"{least_size(g.miss_rate, g.failure_probability)}: it keeps every label.\n"
        "Meta-PS needs no calibration label of the new task; the joint split, the default,\n"
        "has smaller sets than the paper's even one."
    )
