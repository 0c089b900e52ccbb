"""A study of any learner on pools of your own data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metapac._types import Floats, Progress, Seed, ignore_progress
from metapac._visible import name_score
from metapac._warnings import warn
from metapac.evaluation.descriptions import describe_learner, describe_pool
from metapac.evaluation.draws import Draw, ScoredTask
from metapac.evaluation.pool_scores import PoolScores, Score, score_pool
from metapac.evaluation.pool_sizes import (
    check_pools,
    check_unshared,
    count_queries,
    count_tasks,
    count_test_queries,
    describe_group_reuse,
    join_groups,
    largest_queries,
)
from metapac.evaluation.predictor import find_obstacle, fit_predictor, predict_quantiles
from metapac.exceptions import InvalidInput
from metapac.learners.protocols import Learner
from metapac.tasks.batch import query_sizes
from metapac.tasks.drawing import draw_all
from metapac.tasks.settings import Choice
from metapac.tasks.task import Task

if TYPE_CHECKING:
    from metapac.meta_cp.quantiles import QuantilePredictor

_NO_POOL = "no pool was given to train its quantile predictor on; pass one as predictor"


class _Prepared(NamedTuple):
    """What all draws of a study share."""

    calibration: PoolScores
    test: PoolScores
    predictor: QuantilePredictor | None


class PoolStudy:
    """Calibration draws of a learner: tasks drawn from pools, and scored together.

    Parameters
    ----------
    learner : Learner
        Any learner. One with a method ``bank(x)`` embeds each pool once, before the first draw;
        any other is adapted to each task of each draw.
    calibration : ClassPool, GroupPool or DomainPool
        Pool that calibration tasks are drawn from.
    test : ClassPool, GroupPool or DomainPool
        Pool that new tasks are drawn from. Pass the calibration pool itself to see the methods on
        new tasks that are like the calibration tasks.
    ways : int or sequence of int, default 5
        Number of classes in a task, or the choices; not used if tasks are groups.
    shots : int or sequence of int, default 5
        Number of support examples, of each class or in all.
    queries : int, optional
        Number of calibration examples of a task, of each class or in all. By default as many as
        the smallest class has; if tasks are groups, all the rest of each.
    test_queries : int, optional
        Number of examples of a new task on which error and size are counted, of each class or in
        all. By default 100, or what the smallest class or group has.
    labelled : int, optional
        Number of further examples of a new task that only PS-Test may use. By default 20, or a
        quarter of what the smallest class or group has.
    tasks : int, optional
        Number of calibration tasks in a draw. By default 500; with ``distinct``, the number of
        calibration groups.
    tests : int, optional
        Number of new tasks in a draw. By default 50; with ``distinct``, the number of test groups.
    distinct : bool, optional
        Use every group at most once in a draw, so that a guarantee is for new groups. Each draw
        then divides the groups of both pools at random. Pass one `GroupPool` as both to divide it
        in halves, or as ``tasks`` and ``tests`` say. By default, and with False, groups are drawn
        with replacement, and a guarantee is for these groups only: ``notes`` says so, and by
        default a warning if the tasks outnumber the groups.
    score : str or ScoreFunction, optional
        Score function, as in `metapac.scoring.score_tasks`; by default the learner's probability.
    predictor : QuantilePredictor, ClassPool or GroupPool, optional
        Meta-CP's quantile predictor, or a pool to train it on. The pool must share no class or
        group with the others; classes that the learner was not trained on are best. Without it, or
        if it cannot be trained, Meta-CP is left out, and ``notes`` says why.
    epsilon : float, default 0.1
        Miss rate whose quantile the predictor learns if it is trained: that of the guarantee.
    banks : tuple, optional
        Embeddings of both pools, from ``learner.bank``; by default they are computed. Studies of
        the same pools with other ways or shots may share them.
    notes : sequence of str, default ()
        Further remarks on the results, put after those of the study.
    description : dict, optional
        Everything that the draws depend on, as JSON can hold it; by default it is collected. A
        function inside a learner is described by its name alone.

    Attributes
    ----------
    epsilon : float or None
        Miss rate that Meta-CP's predictor is for; None without a predictor. `evaluate` refuses a
        guarantee with another.
    notes : tuple of str
        Remarks on the results, such as that Meta-CP is left out, and why.
    preferred_backend : str
        Backend of joblib for `evaluate` with workers: "threading" if pools are embedded, since each
        process would need a copy of the embeddings; "loky", processes, otherwise. A bank of your
        own is shared by threads only if it has an attribute ``thread_safe`` that is True.

    Raises
    ------
    InvalidInput
        If a number is out of its range, or a pool has too few classes, groups or examples.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import PoolStudy, evaluate, summarise
    >>> from metapac.learners import SklearnLearner
    >>> from metapac.tasks import split_classes
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rng, y = np.random.default_rng(0), np.repeat(np.arange(24), 40)
    >>> x = rng.normal(size=(24, 8))[y] + rng.normal(size=(960, 8))
    >>> pools = split_classes(x, y, train=0, validation=0, calibration=12, test=12, rng=0)
    >>> learner = SklearnLearner(GaussianNB())
    >>> study = PoolStudy(learner, pools.calibration, pools.test, tasks=60, tests=10)
    >>> guarantee = Guarantee(epsilon=0.2, alpha=0.2, delta=0.05)
    >>> summary = summarise(evaluate(study, guarantee=guarantee, draws=2), guarantee)
    >>> summary["Meta-PS joint"].verdict  # two draws are few
    'cannot tell yet'
    """

    def __init__(
        self,
        learner: Learner,
        calibration: Any,
        test: Any,
        *,
        ways: Choice = 5,
        shots: Choice = 5,
        queries: int | None = None,
        test_queries: int | None = None,
        labelled: int | None = None,
        tasks: int | None = None,
        tests: int | None = None,
        distinct: bool | None = None,
        score: Score = None,
        predictor: Any = None,
        epsilon: float = 0.1,
        banks: tuple[Any, Any] | None = None,
        notes: Sequence[str] = (),
        description: dict[str, Any] | None = None,
    ) -> None:
        self.distinct, self.score = bool(distinct), score
        check_pools(calibration, test, self.distinct)
        self.tasks, self.tests = count_tasks(calibration, test, self.distinct, tasks, tests)
        if self.distinct and test is not calibration:
            calibration = test = _join_unscored(calibration, test, banks)
        self.calibration, self.test = calibration, test
        self._shape: dict[str, Any] = {"shots": shots}
        if getattr(test, "unit", None) != "group":
            self._shape["ways"] = ways
        self.labelled, self.test_queries = count_test_queries(test, shots, labelled, test_queries)
        self.queries = count_queries(calibration, shots, queries)
        self._draw_tasks(0, 0)  # fails fast, before the pools are embedded
        self._learner, self._banks = learner, banks
        self._prepared: _Prepared | None = None
        obstacle = self._find_obstacle(predictor)
        self._predictor = predictor if obstacle is None else None
        self.epsilon = _predicted_epsilon(self._predictor, epsilon)
        own_notes = [] if obstacle is None else [f"Meta-CP is left out: {obstacle}."]
        self.notes = (*own_notes, *self._describe_reuse(distinct is None), *notes)
        self._description = self._describe() if description is None else description

    def _describe_reuse(self, warns: bool) -> Iterator[str]:
        """Yield what limits a guarantee if groups, or all pools, are used more than once."""
        if self.distinct:
            return
        if self.calibration.unit == "group":
            groups = len(self.calibration.names)
            yield describe_group_reuse(groups, self.tasks)
            if warns and self.tasks > groups:
                warn(describe_group_reuse(groups, self.tasks))
        if self.test is self.calibration:
            yield "New tasks are drawn from the pool that was calibrated on."

    @property
    def preferred_backend(self) -> str:
        """Backend of joblib for `evaluate` with workers."""
        known, new, _ = self._prepare()
        return "threading" if known.thread_safe and new.thread_safe else "loky"

    def prepare(self, progress: Progress | None = None) -> None:
        """Embed the pools and train Meta-CP's predictor, unless that has been done.

        `evaluate` calls it before the first draw, so that workers share what it computes.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(stage, done, total)``.
        """
        self._prepare(progress or ignore_progress)

    def _prepare(self, report: Progress = ignore_progress) -> _Prepared:
        """Score both pools and train Meta-CP's predictor, the first time that it is called."""
        if self._prepared is None:
            self._prepared = self._compute(report)
        return self._prepared

    def _compute(self, report: Progress) -> _Prepared:
        report("embedding the pools", 0, None)
        first, second = self._banks or (None, None)
        known = self._score_pool(self.calibration, first)
        is_same = self.test is self.calibration and self._banks is None
        new = known if is_same else self._score_pool(self.test, second)
        return _Prepared(known, new, self._fit_predictor(report))

    def _score_pool(self, pool: Any, bank: Any = None) -> PoolScores:
        return score_pool(self._learner, pool, score=self.score, bank=bank)

    def sample(self, rng: np.random.Generator) -> tuple[Sequence[Task], Sequence[Task]]:
        """Return the calibration tasks and the new tasks of a draw.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        calibration : sequence of Task
            The calibration tasks.
        tests : sequence of Task
            The new tasks.
        """
        if not self.distinct:
            known, new = self._draw_tasks(*rng.spawn(2))
            return draw_all(known), draw_all(new)
        *seeds, for_order = rng.spawn(3)
        order = for_order.permutation(len(self.test.names)).tolist()
        known, new = self._draw_tasks(*seeds)
        border, end = self.tasks, self.tasks + self.tests
        return [known[i] for i in order[:border]], [new[i] for i in order[border:end]]

    def _draw_tasks(self, for_calibration: Seed, for_test: Seed) -> list[Sequence[Task]]:
        """Return calibration and new tasks, each drawn when it is accessed; of groups, all."""
        counts = (None, None) if self.distinct else (self.tasks, self.tests)
        sizes = self.queries, self.labelled + self.test_queries
        seeds = for_calibration, for_test
        return [
            pool.tasks(count, **self._shape, queries=queries, rng=rng)
            for pool, count, queries, rng in zip(
                (self.calibration, self.test), counts, sizes, seeds, strict=True
            )
        ]

    def draw(self, rng: np.random.Generator) -> Draw:
        """Return calibration scores and new tasks.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        Draw
            The draw.
        """
        tasks, tests = self.sample(rng)
        known, _, predictor = self._prepare()
        return Draw(
            scores=known.true_scores(tasks),
            tasks=np.arange(len(tasks)).repeat(query_sizes(tasks)),
            tests=self._score_tests(tests),
            quantiles=predict_quantiles(predictor, known, tasks),
        )

    def predict_proba(self, task: Task) -> Floats:
        """Return the scores of all labels of the queries of a new task.

        Parameters
        ----------
        task : Task
            Task of the test pool.

        Returns
        -------
        ndarray, shape (q, classes)
            The scores, as they are in deployment.
        """
        return self._prepare().test.all_scores([task])[0]

    def describe(self) -> dict[str, Any]:
        """Return everything that the draws depend on.

        Returns
        -------
        dict
            The description.
        """
        return self._description

    def _score_tests(self, tasks: Sequence[Task]) -> list[ScoredTask]:
        """Return scored new tasks; the first queries of each class are the labelled examples."""
        _, new, predictor = self._prepare()
        predicted = predict_quantiles(predictor, new, tasks)
        quantiles = [None] * len(tasks) if predicted is None else predicted.tolist()
        tables = new.all_scores(tasks)
        of_class = self.labelled + self.test_queries
        return [
            ScoredTask.from_predictions(
                table,
                task.query_y,
                labelled=np.arange(len(task.query)) % of_class < self.labelled,
                quantile=quantile,
            )
            for task, table, quantile in zip(tasks, tables, quantiles, strict=True)
        ]

    def _find_obstacle(self, predictor: Any) -> str | None:
        """Return why Meta-CP is left out, and warn if the reason is unexpected."""
        if predictor is None:
            return _NO_POOL
        obstacle = find_obstacle(self._learner, self.test, self._shape, self._banks)
        if obstacle is None and not hasattr(predictor, "predict"):
            check_unshared(predictor, self.calibration, self.test)
            obstacle = self._try_pool(predictor)
        if obstacle is not None:
            warn(f"Meta-CP is left out: {obstacle}.")
        return obstacle

    def _try_pool(self, pool: Any) -> str | None:
        """Return why tasks of this shape cannot be drawn from a pool; None if they can."""
        try:
            queries = largest_queries(pool, self._shape["shots"], self.test_queries)
            pool.tasks(1, **self._shape, queries=queries, rng=0)
        except InvalidInput as error:
            return f"its quantile predictor cannot be trained: {str(error).rstrip('.')}"
        return None

    def _fit_predictor(self, report: Progress) -> QuantilePredictor | None:
        predictor: Any = self._predictor
        if predictor is None or hasattr(predictor, "predict"):
            fitted: QuantilePredictor | None = predictor
            return fitted
        report("training Meta-CP's quantile predictor", 0, None)
        assert self.epsilon is not None  # there is a pool to train on
        return fit_predictor(
            self._score_pool(predictor),
            predictor,
            self._shape,
            queries=largest_queries(predictor, self._shape["shots"], self.test_queries),
            epsilon=self.epsilon,
        )

    def _describe(self) -> dict[str, Any]:
        return {
            "study": "pools",
            "learner": describe_learner(self._learner),
            "calibration": describe_pool(self.calibration),
            "test": describe_pool(self.test),
            **{name: np.asarray(choices).tolist() for name, choices in self._shape.items()},
            "queries": self.queries,
            "test_queries": self.test_queries,
            "labelled": self.labelled,
            "tasks": self.tasks,
            "tests": self.tests,
            "distinct": self.distinct,
            "score": None if self.score is None else name_score(self.score),
            "notes": list(self.notes),
        }


def _join_unscored(calibration: Any, test: Any, banks: Any) -> Any:
    """Return one pool with the groups of two, unless they were embedded one by one."""
    if banks is not None:
        raise InvalidInput(
            "banks must hold the embeddings of one pool if distinct=True, since each draw divides "
            "all groups. Pass the same GroupPool as calibration and test."
        )
    return join_groups(calibration, test)


def _predicted_epsilon(predictor: Any, epsilon: float) -> float | None:
    """Return the miss rate that a predictor is for, or that a pool will train one for."""
    if predictor is None:
        return None
    own: float | None = getattr(predictor, "epsilon", None)
    return own if hasattr(predictor, "predict") else epsilon
