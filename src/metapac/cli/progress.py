"""The progress bar of all commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich import progress as rich_progress

from metapac._types import Progress
from metapac._visible import visible as make_visible
from metapac.cli.console import stderr


@contextmanager
def progress_bar(
    counter: rich_progress.ProgressColumn | None = None, *, visible: bool = True
) -> Iterator[Progress]:
    """Show a progress bar on the terminal, and yield the callback that moves it.

    The bar starts again at each stage. What follows a comma is not part of the stage: "training,
    loss 0.31" continues "training, loss 0.35".

    Parameters
    ----------
    counter : rich.progress.ProgressColumn, optional
        How to show the work that is done; by default as "3/20".
    visible : bool, default True
        Whether to show the bar; it never appears where standard error is not a terminal.

    Yields
    ------
    Progress
        Called as ``progress(stage, done, total)``.
    """
    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        counter or rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
        console=stderr,
        transient=True,
        disable=not (visible and stderr.is_terminal),
    )
    # Before rich 14.3, a disabled bar prints an empty line when it stops.
    with nullcontext() if bar.disable else bar:
        row = bar.add_task("starting", total=None)
        current = ""

        def advance(stage: str, done: int, total: int | None) -> None:
            nonlocal current
            name = stage.partition(",")[0]
            if name != current:
                current = name
                bar.reset(row)
            bar.update(row, description=make_visible(stage), completed=done, total=total)

        yield advance
