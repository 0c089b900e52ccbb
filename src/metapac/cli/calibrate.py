"""``metapac calibrate``: from a table of scores to a promise file."""

from __future__ import annotations

import warnings
from dataclasses import asdict

from metapac.calibration import check_on_infeasible
from metapac.cli import options
from metapac.cli.bundles import ColumnOptions, ContextOptions, GuaranteeOptions, TableOptions
from metapac.cli.calibrated import print_calibrated
from metapac.cli.parsing import parse_allowed
from metapac.cli.scored_tables import fill_calibration
from metapac.cli.sources import open_table
from metapac.meaning.findings import CheckWarning


def calibrate(
    scores: options.Scores,
    *,
    output: options.PromiseOutput,
    guarantee: GuaranteeOptions,
    on_infeasible: options.OnInfeasible = "raise",
    task: options.ScoredTask = None,
    columns: ColumnOptions,
    id: options.Id = None,
    cluster: options.Cluster = None,
    cluster_rng: options.ClusterRng = 0,
    context: ContextOptions,
    allow: options.Allow = None,
    reading: TableOptions,
    as_json: options.AsJson = False,
) -> None:
    r"""Compute the threshold that gives the guarantee, and write both to a file.

    With confidence 1 - delta, at least a fraction 1 - alpha of new tasks then have sets that miss
    the true label at most a fraction epsilon of the time.

    The table has a row for each labelled example: its task, and either the score of its true label
    (--score) or its true label and the scores of all classes (--label, --columns). A table that
    'metapac score' wrote names its columns and its model itself.

    Example:

        metapac calibrate scores.parquet --task site --score true_score \
            --epsilon 0.1 --alpha 0.1 --delta 0.05 -o promise.json
    """
    stated = guarantee.parse()  # fail fast, before the engine starts
    check_on_infeasible(on_infeasible)
    about = context.parse(task)
    with (
        open_table(scores, reading, output) as (source, progress),
        warnings.catch_warnings(action="ignore", category=UserWarning),  # printed at the end
    ):
        warnings.simplefilter("always", CheckWarning)
        from metapac.tables import calibrate_table
        from metapac.tables.columns import Columns
        from metapac.tables.meaning import check_rare_classes
        from metapac.tables.origins import read_origin

        allowed, origin = parse_allowed(allow), read_origin(source)
        given = columns.parse() | {"task": task, "id": id}
        named = fill_calibration(origin, given, per_class=stated.per_class)
        predictor = calibrate_table(
            source,
            **named,
            cluster=cluster,
            rng=cluster_rng,
            **asdict(stated),
            on_infeasible=on_infeasible,
            context=about,
            allow=allowed,
            progress=progress,
        )
        if not stated.per_class:
            del named["id"]
            used = Columns(pattern=named.pop("columns"), **named)
            check_rare_classes(source, used, stated.miss_rate, allow=allowed)
    predictor.save(output)
    print_calibrated(predictor, output, as_json=as_json)
