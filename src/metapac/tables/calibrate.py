"""Meta-PS on a table: the first step inside an engine, the second on the thresholds it returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from metapac._checks import reject_foreign_keywords
from metapac._types import Progress
from metapac.calibration import MetaPS, check_on_infeasible
from metapac.context import Context, as_context
from metapac.guarantee import Epsilon, Guarantee, Split
from metapac.meaning.checks import check_levels
from metapac.tables.clusters import draw_evidence
from metapac.tables.columns import Columns
from metapac.tables.evidence import collect_evidence
from metapac.tables.ids import get_id_column
from metapac.tables.io.sources import open_source
from metapac.tables.origins import add_origin


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
