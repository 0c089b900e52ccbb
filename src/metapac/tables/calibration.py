"""Calibrate on a table, or make a site file from one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metapac._common import Counts, Floats, Progress, ignore_progress, reject_foreign_keywords
from metapac._text import name_score
from metapac.calibration import check_on_infeasible, warn_if_exact
from metapac.context import Context, as_context
from metapac.copies import judge_duplicates
from metapac.data_checks import check_levels
from metapac.errors import InvalidInput
from metapac.evidence import Evidence, ranks_by_class, ranks_within
from metapac.federated import Site
from metapac.guarantee import Epsilon, Guarantee, Split
from metapac.predictors import MetaPS
from metapac.tables.columns import Columns, get_id_column
from metapac.tables.data_checks import Tasks, check_copies, check_rows
from metapac.tables.scores import Rows, check_guessed_classes, draw_evidence, true_scores
from metapac.tables.search import Census, take_survey
from metapac.tables.sources import Source, add_origin, open_source


def collect_evidence(
    source: Source,
    columns: Columns,
    guarantee: Guarantee,
    progress: Progress | None,
    *,
    id: str | None = None,
    allow: Iterable[str] = (),
) -> tuple[Guarantee, Evidence]:
    """Take the first step: compute a threshold for each task, level and, if needed, class."""
    rows = true_scores(source, columns)
    report = progress or ignore_progress
    has_scores = columns.score is not None
    sample = None if has_scores else check_rows(rows, id=id, allow=allow)
    if rows.keys is not None:
        guarantee = _match_classes(guarantee, rows.keys.classes)
    with source.reading(rows.score_columns, columns.task):
        if columns.task is not None:  # a site, which is a single task, may lack a class
            check_guessed_classes(rows)
        report("counting the scores of each task", 0, None)
        survey = take_survey(rows)
        census = survey.census
        tasks = _tasks(rows, census)
        if has_scores:  # the census has counted the tasks, and the search looks for copies
            check_rows(rows, tasks, id=id, allow=allow, copies=False)
        ranks = _ranks(rows, census, guarantee)
        thresholds, repeats = survey.order_statistics(ranks, report)
        if has_scores and (repeats is None or judge_duplicates(repeats) is not None):
            check_copies(rows, tasks, id=id, allow=allow)
        evidence = _evidence(rows, census, thresholds)
    if rows.residuals is not None:
        warn_if_exact(evidence)
    names = None if rows.class_scores is None else rows.class_scores.names
    return guarantee, evidence._replace(columns=columns.to_json(names), sample=sample)


def _tasks(rows: Rows, census: Census) -> Tasks:
    """Return the tasks of a census and their sizes, over all classes."""
    if rows.keys is None:
        return Tasks(census.names.tolist(), census.sizes)
    names, task, _label = rows.keys.groups(census.names)
    return Tasks(names.tolist(), np.bincount(task, census.sizes).astype(np.int64))


def _ranks(rows: Rows, census: Census, guarantee: Guarantee) -> Counts:
    if rows.keys is None:
        return ranks_within(census.sizes, guarantee)
    label = rows.keys.groups(census.names).label
    return ranks_by_class(census.sizes, label, rows.keys.classes, guarantee)


def _evidence(rows: Rows, census: Census, thresholds: Floats) -> Evidence:
    if rows.keys is None:
        return Evidence(
            census.names,
            census.sizes[:, None],
            thresholds[:, None],
            census.low.min(keepdims=True).astype(np.float64),
            rows.precision,
            highest=census.high.max(keepdims=True).astype(np.float64),
            ranges=np.stack([census.low, census.high], axis=1).astype(np.float64),
        )
    names, task, label = rows.keys.groups(census.names)
    return Evidence.from_groups(
        names,
        rows.keys.classes,
        task,
        label,
        sizes=census.sizes,
        thresholds=thresholds,
        lowest=census.low,
        highest=census.high,
        precision=rows.precision,
    )


def _match_classes(guarantee: Guarantee, classes: tuple[Any, ...]) -> Guarantee:
    """Return the guarantee with the classes of the table as keys, which may be passed as text."""
    if isinstance(guarantee.epsilon, Mapping):
        by_text = {str(name): name for name in classes}
        epsilon = {by_text.get(str(name), name): e for name, e in guarantee.epsilon.items()}
        guarantee = replace(guarantee, epsilon=epsilon)
        guarantee.check_classes(classes)
        for name in classes:  # fail fast if one has no epsilon
            guarantee.for_class(name, classes)
    return guarantee


@reject_foreign_keywords
def calibrate_table(
    source: Any,
    *,
    task: str,
    score: str | None = None,
    label: str | None = None,
    columns: str | Sequence[str] = "p_*",
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    prediction: str | None = None,
    y: str | None = None,
    scale: str | None = None,
    cluster: str | None = None,
    rng: int = 0,
    epsilon: Epsilon,
    alpha: float,
    delta: float | None,
    split: Split = "joint",
    per_class: bool = False,
    min_examples: int = 0,
    on_infeasible: str = "raise",
    context: Context | None = None,
    id: str | None = None,
    allow: Iterable[str] = (),
    table: str | None = None,
    connection: Any = None,
    progress: Progress | None = None,
) -> MetaPS:
    """Calibrate Meta-PS on a table; the result is that of ``MetaPS.calibrate`` on its scores.

    The engine counts the scores of each task and returns those near its thresholds. Tasks are
    sorted by name.

    Parameters
    ----------
    source : path, list of paths, frame, Ibis table or Ibis connection
        A path, glob or folder of Parquet, CSV or JSON lines files, or a list of them; a DuckDB or
        SQLite file, or the address of a database, with ``table``; a pandas, polars or pyarrow
        frame; an Ibis table or connection.
    task : str
        Column with the task of each row.
    score : str, optional
        Column with the score of the true label; higher means more plausible.
    label : str, optional
        Column with the true label. Without ``score``, the score of a row is that of its label
        among the class scores in ``columns``. With ``score``, which needs ``per_class``, it only
        names the class.
    columns : str or sequence of str, default "p_*"
        Columns with a score for each class, the star being the name of the class, or a list of
        them; or one column of lists.
    classes : sequence, optional
        Names of the classes: they select some of the columns that match, or name the columns that
        are listed, in the same order, or the positions in the lists, which are 0, 1, ... by
        default. With ``score`` and ``label``, all labels by default.
    classes_column : str, optional
        Column with the list of classes of each row, in the order of the lists of scores in
        ``columns``; for tasks with different numbers of classes.
    prediction : str, optional
        For regression: column with the predicted number. The score is then
        ``-|y - prediction| / scale``, as in ``residual_scores``, and sets are intervals.
    y : str, optional
        Column with the true number, beside ``prediction``.
    scale : str, optional
        Column with the scale of each residual, a positive number; 1 by default.
    cluster : str, optional
        Column with the cluster of each task, such as its hospital group. Tasks of one cluster may
        depend on each other. One random task of each cluster is calibrated on, and the guarantee
        is for new tasks of new clusters.
    rng : int, default 0
        Seed of that draw, which does not look at scores. Fix it beforehand.
    epsilon : float or mapping from class to float
        Miss rate allowed on a task. With ``per_class``, a mapping gives each class its own.
    alpha : float
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee; None for a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps; see ``MetaPS``.
    per_class : bool, default False
        Whether to bound the miss rate of each class separately. It needs ``label``.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with ``per_class``, of the class).
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the data are too few: raise ``InfeasibleGuarantee``, or keep every label (for
        numbers, infinite intervals).
    context : Context, optional
        What the guarantee is about: model, training tasks, vocabulary.
    id : str, optional
        Column that identifies the examples of a task, in which duplicates are searched. Without
        it, rows that are equal are.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` at each step.

    Returns
    -------
    MetaPS
        The calibrated predictor. It stores the columns, as ``columns_``.

    Raises
    ------
    InfeasibleGuarantee
        If the tasks are too few or too small; the message says what would work.
    InvalidInput
        If a parameter, a column or a value in it is not valid.
    EngineError
        If the engine cannot read the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac.tables import calibrate_table
    >>> scores = pd.DataFrame({"site": [i % 40 for i in range(2000)], "score": range(2000)})
    >>> promise = calibrate_table(
    ...     scores, task="site", score="score", epsilon=0.1, alpha=0.1, delta=0.1
    ... )
    >>> promise.threshold_
    120.0
    >>> promise.columns_
    {'task': 'site', 'score': 'score'}
    """
    check_on_infeasible(on_infeasible)
    guarantee = Guarantee(
        epsilon=epsilon,
        alpha=alpha,
        delta=delta,
        split=split,
        per_class=per_class,
        min_examples=min_examples,
    )
    check_levels(epsilon, alpha, delta, allow=allow)
    used = Columns(
        task,
        score,
        label,
        columns,
        classes,
        per_class,
        classes_column=classes_column,
        prediction=prediction,
        y=y,
        scale=scale,
        cluster=cluster,
    )
    with open_source(source, table=table, connection=connection) as opened:
        context = add_origin(opened, as_context(context))
        if cluster is not None:
            get_id_column(opened, cluster, "clusters")  # fail fast
        guarantee, evidence = collect_evidence(
            opened, used, guarantee, progress, id=id, allow=allow
        )
        if cluster is not None:
            as_context(context, evidence.names.tolist(), allow)  # none may be trained on
            evidence = draw_evidence(opened, used, evidence, rng)
    return MetaPS.from_evidence(
        guarantee, evidence, on_infeasible=on_infeasible, context=context, allow=allow
    )


@reject_foreign_keywords
def site_table(
    source: Any,
    *,
    name: str,
    score: str | None = None,
    label: str | None = None,
    columns: str | Sequence[str] = "p_*",
    classes: Sequence[Any] | None = None,
    classes_column: str | None = None,
    prediction: str | None = None,
    y: str | None = None,
    scale: str | None = None,
    epsilon: Epsilon,
    alpha: float,
    delta: float | None,
    split: Split = "joint",
    per_class: bool = False,
    min_examples: int = 0,
    id: str | None = None,
    allow: Iterable[str] = (),
    table: str | None = None,
    connection: Any = None,
    progress: Progress | None = None,
) -> Site:
    """Return what a site sends to ``combine_sites``: a threshold for each level, no other score.

    All rows are one task. Every site has to use the same parameters.

    Parameters
    ----------
    source : path, list of paths, frame, Ibis table or Ibis connection
        The table of this site; as in ``calibrate_table``.
    name : str
        Name of the site, unique among sites.
    score : str, optional
        Column with the score of the true label.
    label : str, optional
        Column with the true label; as in ``calibrate_table``.
    columns : str or sequence of str, default "p_*"
        Columns with a score for each class, the star being the name of the class, or a list of
        them; or one column of lists.
    classes : sequence, optional
        Names of the classes; a site may lack examples of some. They must be passed with
        ``per_class`` and ``score``, unless ``epsilon`` is a mapping that names them.
    classes_column : str, optional
        Column with the list of classes of each row; as in ``calibrate_table``.
    prediction, y, scale : str, optional
        For regression, the columns of predicted and true numbers and of scales; as in
        ``calibrate_table``.
    epsilon : float or mapping from class to float
        Miss rate allowed on a task. With ``per_class``, a mapping gives each class its own.
    alpha : float
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee; None for a guarantee in expectation.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps; see ``MetaPS``.
    per_class : bool, default False
        Whether to bound the miss rate of each class separately. It needs ``label``.
    min_examples : int, default 0
        Leave out sites with fewer examples (with ``per_class``, of the class).
    id : str, optional
        Column that identifies the examples, in which duplicates are searched. Without it, rows that
        are equal are.
    allow : iterable of str, default ()
        Checks of the data to skip, such as "duplicates"; the message of a check names it.
    table : str, optional
        Table of a database.
    connection : Ibis connection, optional
        The engine that reads files and frames; see ``connect``. By default DuckDB in this process.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` at each step.

    Returns
    -------
    Site
        What to save and send. With too few rows, the threshold is ``-inf``: the site counts, but
        without evidence. It names the model, if ``metapac score`` wrote the table.

    Raises
    ------
    InvalidInput
        If a parameter, a column or a value in it is not valid, or the table has scores of tasks
        that the learner was trained on.
    EngineError
        If the engine cannot read the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac.tables import site_table
    >>> scores = pd.DataFrame({"score": range(100)})
    >>> site = site_table(
    ...     scores, name="ohio", score="score", epsilon=0.1, alpha=0.1, delta=0.1, split="tight"
    ... )
    >>> site.examples
    (100,)
    >>> site.thresholds
    ((4.0,),)
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(
            f"name must be a non-empty string, unique among sites, got {name!r}. Pass one such as "
            "name='ohio'.",
            parameter="name",
        )
    guarantee = Guarantee(
        epsilon=epsilon,
        alpha=alpha,
        delta=delta,
        split=split,
        per_class=per_class,
        min_examples=min_examples,
    )
    if per_class and score is not None and classes is None:
        if not isinstance(epsilon, Mapping):
            raise InvalidInput(
                "classes must name all classes if score is passed: they must be the same at every "
                "site, and this one may lack some.",
                parameter=("classes", "score"),
            )
        classes = list(epsilon)
    check_levels(epsilon, alpha, delta, allow=allow)
    used = Columns(
        None,
        score,
        label,
        columns,
        classes,
        per_class,
        classes_column=classes_column,
        prediction=prediction,
        y=y,
        scale=scale,
    )
    with open_source(source, table=table, connection=connection) as opened:
        origin = add_origin(opened, Context())
        guarantee, evidence = collect_evidence(
            opened, used, guarantee, progress, id=id, allow=allow
        )
    site = Site.from_evidence(name.strip(), guarantee, evidence)
    score_name = None if origin.score is None else name_score(origin.score)
    return replace(site, model=origin.model, score=score_name)
