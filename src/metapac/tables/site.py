"""A table as one site of a federation, which shares only a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from metapac._checks import reject_foreign_keywords
from metapac._types import Progress
from metapac._visible import name_score
from metapac.context import Context
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Epsilon, Guarantee, Split
from metapac.meaning.checks import check_levels
from metapac.sites import Site
from metapac.tables.columns import Columns
from metapac.tables.evidence import collect_evidence
from metapac.tables.io.sources import open_source
from metapac.tables.origins import add_origin


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
            "{} must be a non-empty string, unique among sites, got {!r}. Pass one such as {}.",
            Parameter("name"),
            name,
            Parameter("name", "ohio"),
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
                "{} must name all classes if {} is passed: they must be the same at every site, "
                "and this one may lack some.",
                Parameter("classes"),
                Parameter("score"),
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
