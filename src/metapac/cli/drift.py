"""The part of ``metapac monitor`` without labels: compare scores with those of calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from metapac.cli.bundles import TableOptions
from metapac.cli.console import make_cell, make_table, print_json, print_text, stdout
from metapac.cli.scored_tables import fill_new
from metapac.cli.sources import open_table
from metapac.explanation.words import Words

if TYPE_CHECKING:
    from metapac.monitoring import Drift

_SHOWN = 10


def report_drift(
    predictor: Any,
    scores: list[str],
    reference: Path,
    given: dict[str, Any],
    reading: TableOptions,
    *,
    model: str | None = None,
    as_json: bool,
) -> None:
    """Compare the scores of new tasks with those of calibration, and print what is unusual.

    Parameters
    ----------
    predictor : MetaPS or PS
        The calibrated predictor.
    scores : list of str
        Table of new tasks, as typed.
    reference : Path
        Table that was calibrated on.
    given : dict
        Columns by parameter of ``compare_tables``.
    reading : TableOptions
        How to read the tables.
    model : str, optional
        Name of the model that gave the scores of the new tasks.
    as_json : bool
        Whether to print JSON.
    """
    with open_table(scores, reading) as (source, progress):
        from metapac.tables.monitor import compare_tables
        from metapac.tables.origins import read_origin

        progress("comparing the scores of each task", 0, None)
        per_class = getattr(predictor, "classes_", None) is not None
        columns = fill_new(read_origin(source), given, labelled=False, per_class=per_class)
        drift = compare_tables(
            predictor, source, reference, model=model, connection=source.connection, **columns
        )
    words = Words.from_context(predictor.context_)
    if as_json:
        print_json(_summarise(drift, words))
        return
    print_text(_describe(drift, words))
    if drift.unusual:
        stdout.print(Text(), _table(drift, words), sep="\n")


def _describe(drift: Drift, words: Words) -> str:
    number, total = len(drift.unusual), words.count_units(len(drift.shifts))
    have = "has" if number == 1 else "have"
    verdict = "Chance explains that."
    if len(drift.shifts) == 1:
        verdict = f"One {words.unit} is too few to tell chance from change."
    if drift.is_suspicious:
        verdict = "That is more than chance explains: the scores have changed."
    return (
        f"Without labels: {number} of {total} {have} unusual scores, where {drift.expected:.2g} "
        f"would be expected; a new {words.example} has a higher score than one of calibration in "
        f"{drift.higher:.0%} of pairs. {verdict} This is a heuristic: scores may change while the "
        f"sets stay good, and the reverse. To know, label {words.examples} and pass --state."
    )


def _table(drift: Drift, words: Words) -> Any:
    title = f"Unusual {words.units}"
    if len(drift.unusual) > _SHOWN:
        title += f" (the first {_SHOWN} of {len(drift.unusual)})"
    right = [words.examples, "higher than calibration", "p"]
    table = make_table([words.unit], right, title)
    for shift in drift.unusual[:_SHOWN]:
        share = f"{shift.higher:.0%} of pairs"
        table.add_row(make_cell(shift.task), str(shift.examples), share, f"{shift.p_value:.2g}")
    return table


def _summarise(drift: Drift, words: Words) -> dict[str, Any]:
    return {
        "suspicious": drift.is_suspicious,
        "sentence": _describe(drift, words),
        "tasks": len(drift.shifts),
        "reference": drift.reference,
        "higher": drift.higher,
        "unusual": [shift._asdict() for shift in drift.unusual],
        "expected": drift.expected,
        "p_common": drift.p_common if len(drift.shifts) > 1 else None,
    }
