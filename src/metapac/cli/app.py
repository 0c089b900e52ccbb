"""All commands, in the order in which people need them."""

from __future__ import annotations

import typer

from metapac.cli import calibrate, demo, plan, predict, train

app = typer.Typer(
    name="metapac",
    help="Prediction sets with a guarantee for every new task.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("plan")(plan.plan)
app.command("calibrate")(calibrate.calibrate)
app.command("predict")(predict.predict)
app.command("train")(train.train)
app.command("demo")(demo.demo)
