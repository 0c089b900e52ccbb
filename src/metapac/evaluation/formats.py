"""A summary as text, Markdown, LaTeX, HTML, CSV and JSON."""

from __future__ import annotations

import csv
import html
import io
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from metapac.evaluation.intervals import Interval
from metapac.evaluation.methods import describe_need

if TYPE_CHECKING:
    from metapac.evaluation.summary import MethodSummary, Summary

_TEX = str.maketrans({c: rf"\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}"})
_MARKS = str.maketrans({"†": r"$\dagger$", "‡": r"$\ddagger$"})
_SHORTAGE = "† too few data for its guarantee on some task, where every label is kept."
_EVERY_LABEL = "‡ every set has every label, so that its error is 0 whatever the scores."


def header(summary: Summary) -> list[str]:
    """Return the names of the columns.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    list of str
        The names; that of the quantile depends on alpha.
    """
    quantile = f"{100 * (1 - summary.guarantee.alpha):g} % error"
    return [
        "method",
        "mean size",
        quantile,
        "tasks within",
        "draws within",
        "by chance",
        "verdict",
    ]


def cells(summary: Summary) -> list[list[str]]:
    """Return the cells of the table as text.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    list of list of str
        A list for each line: the name, numbers with their 95 % intervals, and the verdict.
    """
    return [
        [
            full_name(summary, line),
            f"{line.size:.3f}{_ends(line.size_interval, '.3f')}",
            f"{line.error_quantile:.3f}{_ends(line.error_quantile_interval, '.3f')}",
            f"{line.tasks_within:.1%}{_ends(line.tasks_within_interval, '.1%')}",
            f"{line.draws_within:.0%}",
            f"{line.draws_expected:.0%}",
            line.verdict,
        ]
        for line in summary
    ]


def full_name(summary: Summary, line: MethodSummary) -> str:
    """Return the name of a method, with its delta if that is not the guarantee's.

    Parameters
    ----------
    summary : Summary
        The summary.
    line : MethodSummary
        One of its lines.

    Returns
    -------
    str
        The name, with a † if the method had too few data, or a ‡ if it had not and yet every set
        has every label.
    """
    strict = summary.guarantee.failure_probability
    name = line.method if line.delta == strict else f"{line.method}, delta = {line.delta:g}"
    if not line.feasible:
        return f"{name} †"
    return f"{name} ‡" if line.every_label else name


def _ends(interval: Interval, form: str) -> str:
    """Return an interval in brackets; nothing if it is unbounded."""
    if not all(map(math.isfinite, interval)):
        return ""
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f" [{low}, {high}]"


def footnotes(summary: Summary) -> list[str]:
    """Return the footnotes: what the columns mean, what the intervals cover, and the notes.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    list of str
        The sentences.
    """
    short = [] if all(line.feasible for line in summary) else [_describe_shortage(summary)]
    full = [_EVERY_LABEL] if any(line.feasible and line.every_label for line in summary) else []
    return [define_columns(summary), summary.covers, *short, *full, *summary.notes]


def _describe_shortage(summary: Summary) -> str:
    """Return what † means, and what the methods that have it need."""
    needs: dict[str, list[str]] = {}
    for line in summary:
        need = _need(summary, line)
        if need is not None:
            needs.setdefault(need, []).append(full_name(summary, line).removesuffix(" †"))
    listed = "; ".join(f"{need} for {' and '.join(names)}" for need, names in needs.items())
    return f"{_SHORTAGE} Needed: {listed}." if listed else _SHORTAGE


def _need(summary: Summary, line: MethodSummary) -> str | None:
    """Return what a method that had too few data needs; None if it had enough."""
    return None if line.feasible else describe_need(summary.guarantee, line.method, line.delta)


def define_columns(summary: Summary) -> str:
    """Return the meaning of the columns that their names do not say.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    str
        A sentence for each.
    """
    g = summary.guarantee
    least = f"{100 * (1 - g.alpha):g} %"
    return (
        f"mean size: over tasks. tasks within: new tasks with an error of at most {g.miss_rate:g}. "
        f"draws within: calibration draws in which these are at least {least} of the new tasks. by "
        "chance: draws within to be expected if all thresholds were equally good. verdict: "
        "'observed within' is about errors as observed, 'holds' of metapac evaluate about true "
        "miss rates; 'violated' if few test examples do not explain the tasks above "
        f"{g.miss_rate:g}; 'cannot tell yet': small test sets alone could explain them."
    )


def to_text(summary: Summary) -> str:
    """Return the table as plain text, its columns aligned, with its footnotes.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    str
        The text.
    """
    rows = [header(summary), *cells(summary)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])

    def align(row: list[str]) -> str:
        first, *numbers, last = zip(row, widths, strict=True)
        middle = [text.rjust(width) for text, width in numbers]
        return "  ".join([first[0].ljust(first[1]), *middle, last[0]])

    return "\n".join([*map(align, rows), "", *footnotes(summary)])


def to_markdown(summary: Summary) -> str:
    """Return the table in Markdown, with its footnotes.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    str
        The text.
    """
    names = header(summary)
    rows = [names, ["---", *["---:"] * (len(names) - 2), "---"], *cells(summary)]
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    table = [f"| {' | '.join(row)} |" for row in escaped]
    return "\n".join([*table, "", *footnotes(summary)]) + "\n"


def to_latex(summary: Summary) -> str:
    """Return the table as a LaTeX ``tabular`` for the package ``booktabs``.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    str
        The text; the footnotes are comments.
    """
    head, *rows = (
        " & ".join(cell.translate(_TEX).translate(_MARKS) for cell in row) + r" \\"
        for row in [header(summary), *cells(summary)]
    )
    columns = "l" + "r" * (len(header(summary)) - 2) + "l"
    lines = [
        "% " + " ".join(footnotes(summary)).replace("\n", " "),
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def to_html(summary: Summary) -> str:
    """Return the table in HTML, with its footnotes.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    str
        The text.
    """

    def row(tag: str, texts: list[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"

    body = "".join(row("td", texts) for texts in cells(summary))
    below = "".join(f"<p>{html.escape(text)}</p>" for text in footnotes(summary))
    return f"<table>{row('th', header(summary))}{body}</table>{below}"


def to_csv(summary: Summary) -> str:
    """Return the table as CSV, in full precision, with a column for each end of an interval.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    str
        The text.
    """
    text = io.StringIO(newline="")
    lines = [_flatten(line) for line in summary]
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _flatten(line: MethodSummary) -> dict[str, Any]:
    """Return the fields of a line; an interval becomes two, such as size_low and size_high."""
    flat: dict[str, Any] = {}
    for name, value in asdict(line).items():
        if name.endswith("_interval"):
            stem = name.removesuffix("_interval")
            flat |= {f"{stem}_low": value[0], f"{stem}_high": value[1]}
        else:
            flat[name] = value
    return flat | {"verdict": line.verdict}


def describe(summary: Summary) -> dict[str, Any]:
    """Return the table as JSON can hold it; an interval without an end has None there.

    Parameters
    ----------
    summary : Summary
        The summary.

    Returns
    -------
    dict
        ``methods``, ``seeds``, ``draws``, ``columns`` (what they mean), ``covers`` and ``notes``.
    """
    return {
        "methods": [
            {name: _finite(value) for name, value in asdict(line).items()}
            | {"verdict": line.verdict, "needed": _need(summary, line)}
            for line in summary
        ],
        "seeds": summary.seeds,
        "draws": summary.draws,
        "columns": define_columns(summary),
        "covers": summary.covers,
        "notes": list(summary.notes),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [end if math.isfinite(end) else None for end in value]
    return value
