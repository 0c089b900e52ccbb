"""All commands, in the order in which people need them."""

from __future__ import annotations

from typing import Annotated

import typer

from metapac._version import __version__
from metapac.cli import (
    calibrate,
    data,
    demo,
    evaluate,
    plan,
    predict,
    reproduce,
    site,
    train,
)

app = typer.Typer(
    name="metapac",
    help="Prediction sets with a guarantee for every new task.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command("plan")(plan.plan)
app.command("calibrate")(calibrate.calibrate)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("site")(site.site)
app.command("combine")(site.combine)
app.add_typer(data.data)
app.command("train")(train.train)
app.command("reproduce")(reproduce.reproduce)
app.command("demo")(demo.demo)
