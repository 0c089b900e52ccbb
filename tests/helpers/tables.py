"""The verbs on tables in one call: keywords become Columns, Reading and MetaPS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields
from typing import Any

import metapac
from metapac import Columns, Evaluation, Exploration, MetaPS, Reading, Site, make_site, open_table
from metapac.betting import Added
from metapac.drift import Drift
from metapac.report import report
from metapac.sets import SetSummary
from metapac.tables import Table, compare_tables
from metapac.tables.sources import Source

_COLUMNS = {field.name for field in fields(Columns)}
_READING = {field.name for field in fields(Reading)}
_LEVELS = ("epsilon", "alpha", "delta", "split", "per_class", "min_examples", "on_infeasible")


def open_scores(source: Any, options: dict[str, Any]) -> Table:
    """Open a table; what names columns, or how to read it, is taken out of the options."""
    columns = Columns(**{name: options.pop(name) for name in [*options] if name in _COLUMNS})
    if isinstance(source, Table):
        return Table(source.source, columns)
    reading = Reading(**{name: options.pop(name) for name in [*options] if name in _READING})
    return open_table(source, columns, reading)


@contextmanager
def opened(source: Any, options: dict[str, Any]) -> Iterator[Table]:
    """Open a table as `open_scores` does, and close it if it was not open before."""
    with nullcontext() if isinstance(source, Table) else ExitStack() as stack:
        table = open_scores(source, options)
        if stack is not None:
            stack.enter_context(table)
        yield table


def make_method(options: dict[str, Any]) -> MetaPS:
    """Return the method whose parameters are taken out of the options."""
    return MetaPS(**{name: options.pop(name) for name in _LEVELS if name in options})


def calibrate_table(source: Any, **options: Any) -> MetaPS:
    with opened(source, options) as table:
        return make_method(options).calibrate(table, **options)


def site_table(source: Any, **options: Any) -> Site:
    with opened(source, options) as table:
        return make_site(make_method(options), table, **options)


def evaluate_table(promise: Any, source: Any, **options: Any) -> Evaluation:
    with opened(source, options) as table:
        return metapac.evaluate(promise, table, **options)


def predict_table(promise: Any, source: Any, **options: Any) -> Any:
    return promise.predict(open_scores(source, options), **options)


def summarise_table(promise: Any, source: Any, **options: Any) -> SetSummary:
    return open_scores(source, options).summarise_sets(promise)


def explore_table(source: Any, **options: Any) -> Exploration:
    return metapac.explore(open_scores(source, options), **options)


def monitor_table(monitor: Any, source: Any, **options: Any) -> Added:
    added: Added = monitor.add(open_scores(source, options), **options)
    return added


def compare(promise: Any, source: Any, reference: Any, **options: Any) -> Drift:
    reading = {name: options[name] for name in ("connection",) if name in options}
    known = open_table(reference, reading=Reading(**reading))
    return compare_tables(promise, open_scores(source, options), known, **options)


def report_table(promise: Any, source: Any = None, **options: Any) -> str:
    opened = None if source is None else open_scores(source, options)
    return report(promise, opened, **options)


def open_source(source: Any, **options: Any) -> Source:
    """Open a table with options of Reading, for tests of how it is read."""
    return open_table(source, reading=Reading(**options)).source
