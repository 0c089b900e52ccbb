"""Markdown: tables, numbers with their intervals, links and lists of names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from experiments.results_page.stored import Evaluation, Result
from metapac import Guarantee
from metapac.fewshot.study.summary import TOO_FEW, WITHIN, Interval, MethodSummary
from metapac.verdict import UNDECIDED, VIOLATED

NONE = "\N{EN DASH}"
SHORT, SPACE = "†", "\N{NO-BREAK SPACE}"
MARKS = {WITHIN: "✓", VIOLATED: "✗", UNDECIDED: "?", TOO_FEW: SHORT}


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, aligned: str = "l") -> str:
    """Return a table; ``aligned`` says "l" or "r" for its first columns, and "r" for the others."""
    rules = {"l": "---", "r": "---:"}
    rule = [rules[side] for side in aligned.ljust(len(header), "r")]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows))


def bullets(sentences: Iterable[str]) -> str:
    """Return a list with a bullet for each sentence."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def join(parts: Iterable[str]) -> str:
    """Return paragraphs, empty ones left out."""
    return "\n\n".join(part for part in parts if part)


def enumerate_names(names: Sequence[str], link: str = "and") -> str:
    """Return names as a phrase: "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} {link} {last}" if first else last


def name_titles(results: Iterable[Result]) -> str:
    """Return the titles of experiments as a phrase."""
    return enumerate_names([f"*{result.title}*" for result in results])


def either(numbers: Iterable[float]) -> str:
    """Return different numbers as a phrase, in order: "2 or 3"."""
    return enumerate_names([f"{number:g}" for number in sorted(set(numbers))], "or")


def with_interval(value: float, interval: Interval, form: str) -> str:
    """Return a number and its interval; the number alone if that is unbounded."""
    if not all(map(math.isfinite, interval)):
        return format(value, form)
    return f"{value:{form}} {brackets(interval, form)}"


def brackets(interval: Interval, form: str) -> str:
    """Return an interval in brackets, which no line break divides."""
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f"[{low},{SPACE}{high}]"


def size(line: MethodSummary) -> str:
    """Return the mean set size of a method, marked if it kept every label for want of data."""
    if not line.feasible:
        return f"{line.size:.2f} {SHORT}"
    return with_interval(line.size, line.size_interval, ".2f")


def error(line: MethodSummary) -> str:
    """Return the (1 - alpha) quantile of the error of a method."""
    return with_interval(line.error_quantile, line.error_quantile_interval, ".3f")


def within(line: MethodSummary) -> str:
    """Return the share of tasks within epsilon, with the mark of the verdict."""
    share, ends = f"{line.tasks_within:.1%}", brackets(line.tasks_within_interval, ".1%")
    return f"{share}{SPACE}{MARKS[line.verdict]} {ends}"


def method_rows(result: Result, methods: Sequence[str], facts: Sequence[str]) -> list[list[str]]:
    """Return a row for each method; ``facts`` stand in the first column, in order."""
    beside = [*facts, *[""] * (len(methods) - len(facts))]
    lines = [result.line(method) for method in methods]
    return [
        [fact, line.method, size(line), error(line), within(line)]
        for fact, line in zip(beside, lines, strict=True)
    ]


def full_name(result: Result, line: MethodSummary) -> str:
    """Return the name of a method, with its delta if that is not the guarantee's."""
    return line.method if line.delta == result.delta else f"{line.method}, delta = {line.delta:g}"


def error_name(guarantee: Guarantee) -> str:
    """Return the name of the (1 - alpha) quantile of the error, such as "90% error"."""
    return f"{100 * (1 - guarantee.alpha):g}% error"


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    allowed = [c for c in title.lower() if c.isalnum() or c in " -"]
    return "".join(allowed).replace(" ", "-")


def link(title: str) -> str:
    """Return a link to the section of an experiment."""
    return f"[{title}](#{anchor(title)})"


def all_or(count: int, total: int) -> str:
    """Return a count out of a total: "all 7", "5 of 7" or "none of 7"."""
    return f"all {total}" if count == total else f"{count or 'none'} of {total}"


def first_draws(controls: Sequence[Evaluation]) -> str:
    """Return which draws of an experiment its controls have: "the first 10 draws of each seed"."""
    return f"the first {either(control.draws for control in controls)} draws of each seed"


def percent(value: float, form: str = ".0%") -> str:
    """Return a share in prose: "95%"."""
    return format(value, form)


def span(values: Sequence[float], form: str) -> str:
    """Return a range such as "3% to 7%", or one number if both ends read the same."""
    low, high = (percent(end, form) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
