"""The study of a learner on pools of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from metapac._common import (
    Array,
    Floats,
    Progress,
    Seed,
    as_whole_number,
    ignore_progress,
    require,
    warn,
)
from metapac._text import name_score
from metapac.errors import InvalidInput, MissingExtra, keyword
from metapac.fewshot.adapters import Learner, adapt_learner
from metapac.fewshot.drawing import Choice, draw_all
from metapac.fewshot.pools import GroupPool, Pools
from metapac.fewshot.scoring import score_matrix, score_tasks
from metapac.fewshot.study.draws import Draw, ScoredTask
from metapac.fewshot.study.methods import describe_learner, describe_pool
from metapac.fewshot.tasks import Task, query_sizes
from metapac.score_functions import ScoreFunction

if TYPE_CHECKING:
    from metapac.fewshot.quantile_predictor import QuantilePredictor

TASKS, TESTS = 500, 50
_TEST_QUERIES, _LABELLED = 100, 20  # of each class, as in the paper


def check_pools(calibration: Any, test: Any, distinct: bool) -> None:
    """Raise InvalidInput if two pools cannot be studied together."""
    for name, pool in (("calibration", calibration), ("test", test)):
        if not (hasattr(pool, "tasks") and hasattr(pool, "positions")):
            raise InvalidInput(
                f"{name} must be a pool that tasks are drawn from, such as ClassPool(x, y), got "
                f"{type(pool).__name__}."
            )
    if calibration.unit != test.unit:
        raise InvalidInput(
            "calibration and test must be pools of one kind, got "
            f"{type(calibration).__name__} and {type(test).__name__}."
        )
    if test is not calibration:
        Pools(calibration=calibration, test=test)  # raises if they share a class
    if distinct and test.unit != "group":
        raise InvalidInput(
            f"distinct=True is for groups, and a {type(test).__name__} has none. Leave it out, or "
            "pass a GroupPool."
        )


def count_tasks(
    calibration: Any, test: Any, distinct: bool, tasks: int | None, tests: int | None
) -> tuple[int, int]:
    """Return how many calibration tasks and how many new tasks a draw has."""
    tasks = None if tasks is None else as_whole_number("tasks", tasks)
    tests = None if tests is None else as_whole_number("tests", tests)
    if not distinct:
        return tasks or TASKS, tests or TESTS
    known, new = len(calibration.names), len(test.names)
    total = known if test is calibration else known + new
    if tasks is None:
        half = total // 2 if test is calibration else new
        tasks = max(1, min(known, total - (tests or half)))
    tests = tests or max(1, min(new, total - tasks))
    if tasks + tests > total:
        raise InvalidInput(
            f"tasks + tests must be at most the {total} groups, since none is used twice, got "
            f"{tasks + tests}.",
            parameter=("tasks", "tests"),
        )
    return tasks, tests


def describe_group_reuse(groups: int, tasks: int) -> str:
    """Return what follows if calibration tasks are groups that were drawn with replacement."""
    reuse = "a group may be in several tasks"
    if tasks > groups:
        reuse = f"a group is in {tasks / groups:.3g} tasks on average"
    return (
        f"{tasks} calibration tasks from {groups} groups: {reuse}. A guarantee calibrated on them "
        f"is for these {groups} groups, not for new ones. Pass distinct=True to use each group "
        "once."
    )


def check_unshared(predictor: Any, *pools: Any) -> None:
    """Raise InvalidInput if the pool of the quantile predictor shares a class with others."""
    if not hasattr(predictor, "positions"):
        raise InvalidInput(
            "predictor must be a QuantilePredictor, or a pool to train one on, got "
            f"{type(predictor).__name__}."
        )
    for pool in pools:
        Pools(train=predictor, calibration=pool)


def join_groups(one: GroupPool, other: GroupPool) -> GroupPool:
    """Return one pool with the groups of two, to be divided anew in each draw."""
    joined = GroupPool(
        np.concatenate([one.x, other.x]),
        np.concatenate([one.y, other.y]),
        np.concatenate([one.groups, other.groups]),
        classes=one.classes,
    )
    joined.columns = one.columns
    return joined


def count_queries(pool: Any, shots: Choice, queries: int | None) -> int | None:
    """Return how many examples a calibration task has, of each class or in all."""
    if queries is not None or pool.unit == "group":
        return queries
    return largest_queries(_classes_only("queries", pool), shots, max(map(len, pool.positions)))


def count_test_queries(
    pool: Any, shots: Choice, labelled: int | None, queries: int | None
) -> tuple[int, int]:
    """Return how many examples of a new task are for PS-Test, and how many for testing."""
    if queries is None or labelled is None:
        pool = _classes_only("test_queries and labelled", pool)
        spare = largest_queries(pool, shots, max(map(len, pool.positions)), least=2)
        if labelled is None:
            beside = spare // 4 if queries is None else spare - queries
            labelled = max(1, min(_LABELLED, beside))
        queries = max(1, min(_TEST_QUERIES, spare - labelled)) if queries is None else queries
    return (
        as_whole_number("labelled", labelled),
        as_whole_number("test_queries", queries),
    )


def _classes_only(name: str, pool: Any) -> Any:
    if pool.unit == "domain":
        raise InvalidInput(f"{name} must be given for a DomainPool.")
    return pool


def largest_queries(pool: Any, shots: Any, wanted: int, least: int = 1) -> int:
    """Return how many queries a pool has, per class or per group, up to a number."""
    spare = min(map(len, pool.positions)) - int(np.max(shots))
    if spare < least:
        raise InvalidInput(f"{_describe_small(pool, int(np.max(shots)), least)}")
    return min(wanted, spare)


def _describe_small(pool: Any, shots: int, queries: int) -> str:
    """Return which classes or groups are too small for a task, and what helps."""
    sizes = [len(members) for members in pool.positions]
    smallest, needed = min(sizes), shots + queries
    small = sum(size < needed for size in sizes)
    units = "classes" if pool.unit == "class" else f"{pool.unit}s"
    lower = f", or pass {keyword('shots', smallest - queries)}"
    return (
        f"{small} of {len(sizes)} {units} {'has' if small == 1 else 'have'} fewer than {needed} "
        f"examples ({'1 shot' if shots == 1 else f'{shots} shots'} and "
        f"{'1 query' if queries == 1 else f'{queries} queries'}); the smallest, "
        f"{pool.names[sizes.index(smallest)]!r}, has {smallest}. Leave {units} with fewer than "
        f"{needed} examples out of the data{lower if smallest > queries else ''}."
    )


Score = str | ScoreFunction | None


class PoolScores(Protocol):
    """Scores of tasks of one pool."""

    @property
    def thread_safe(self) -> bool:
        """Whether threads may score tasks at the same time."""

    def true_scores(self, tasks: Sequence[Task]) -> Array:
        """Return the scores of the true labels of all queries, to calibrate on."""

    def all_scores(self, tasks: Sequence[Task]) -> list[Floats]:
        """Return the scores of all labels of the queries of each task, as in deployment."""


@dataclass(frozen=True, eq=False)
class BankScores:
    """Scores from the embeddings of a pool, computed once for all of its tasks."""

    learner: Learner
    bank: Any
    score: Score = None

    @property
    def thread_safe(self) -> bool:
        """Whether the bank says that threads may share it."""
        return bool(getattr(self.bank, "thread_safe", False))

    def true_scores(self, tasks: Sequence[Task]) -> Array:
        """Return the scores of the true labels of all queries, to calibrate on."""
        if self.score is None:
            return np.asarray(self.bank.scores(tasks))
        return score_tasks(_WithBank(self.learner, self.bank), tasks, score=self.score)[0]

    def all_scores(self, tasks: Sequence[Task]) -> list[Floats]:
        """Return the scores of all labels of the queries of each task."""
        if self.score is None and hasattr(self.bank, "predict_tasks"):
            tables: list[Floats] = self.bank.predict_tasks(tasks)
            return tables
        if self.score is None:
            return [self.bank.predict_proba(task) for task in tasks]
        options: dict[str, Any] = {"score": self.score, "bank": self.bank}
        return [score_matrix(self.learner, task, **options) for task in tasks]


@dataclass(frozen=True, eq=False)
class AdaptedScores:
    """Scores of a learner that is adapted to each task in turn."""

    thread_safe: ClassVar[bool] = False

    learner: Learner
    score: Score = None

    def true_scores(self, tasks: Sequence[Task]) -> Array:
        """Return the scores of the true labels of all queries, to calibrate on."""
        return score_tasks(self.learner, tasks, score=self.score)[0]

    def all_scores(self, tasks: Sequence[Task]) -> list[Floats]:
        """Return the scores of all labels of the queries of each task."""
        return [score_matrix(self.learner, task, score=self.score) for task in tasks]


class _WithBank:
    """A learner whose bank is known."""

    def __init__(self, learner: Learner, bank: Any) -> None:
        self._learner, self._bank = learner, bank

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Any:
        return adapt_learner(self._learner, support_x, support_y, classes=classes)

    def bank(self, _x: Any) -> Any:
        return self._bank


def score_pool(learner: Learner, pool: Any, *, score: Score = None, bank: Any = None) -> PoolScores:
    """Return the scores of a pool, from its embeddings if the learner has them."""
    if bank is not None:
        return BankScores(learner, bank, score)
    if has_bank(learner, pool):
        return BankScores(learner, learner.bank(pool.x), score)  # type: ignore[attr-defined]
    return AdaptedScores(learner, score)


def has_bank(learner: Learner, pool: Any) -> bool:
    """Return whether the tasks of a pool can be scored from its embeddings."""
    return hasattr(learner, "bank") and getattr(pool, "transform", None) is None


PREDICTOR_TASKS = 1000  # that the predictor is trained on, as in the stored experiments


def predict_quantiles(
    predictor: QuantilePredictor | None, scores: PoolScores, tasks: Sequence[Task]
) -> Floats | None:
    """Return the predicted quantile of each task, from its support set alone."""
    if predictor is None:
        return None
    return np.asarray(predictor.predict(leave_one_out(scores, tasks)), np.float64)


def leave_one_out(scores: PoolScores, tasks: Sequence[Task]) -> Floats:
    """Return the nonconformity of support examples: minus their scores, each left out in turn."""
    assert isinstance(scores, BankScores)  # find_obstacle names all others
    return -np.asarray(scores.bank.leave_one_out(tasks))


def find_obstacle(
    learner: Learner, pool: Any, shape: Mapping[str, Any], banks: Any = None
) -> str | None:
    """Return why Meta-CP cannot be run with a learner on tasks of some shape, if it cannot."""
    if banks is None and not has_bank(learner, pool):
        return (
            "its quantile predictor needs the score of each support example when that example is "
            "left out, and this learner has no bank that computes them"
        )
    if any(np.ndim(choices) and len(choices) > 1 for choices in shape.values()):
        return "its quantile predictor needs tasks with equally many support examples"
    if np.max(shape["shots"]) < 2:
        return (
            "its quantile predictor leaves one support example out, and with one shot its class "
            "then has none"
        )
    try:
        require("torch", extra="torch", purpose="Meta-CP")
    except MissingExtra as error:
        return str(error)
    return None


def fit_predictor(
    scores: PoolScores, pool: Any, shape: Mapping[str, Any], *, queries: int, epsilon: float
) -> QuantilePredictor:
    """Return a quantile predictor, trained on tasks of a pool."""
    from metapac.fewshot.quantile_predictor import QuantilePredictor

    tasks = list(pool.tasks(PREDICTOR_TASKS, **shape, queries=queries, rng=0))
    names = np.arange(len(tasks)).repeat([len(task.query) for task in tasks])
    predictor = QuantilePredictor(epsilon=epsilon, rng=0)
    targets = predictor.targets(scores.true_scores(tasks), names)
    return predictor.fit(leave_one_out(scores, tasks), targets)


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
        Score function, as in `metapac.fewshot.score_tasks`; by default the learner's probability.
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
        Miss rate that Meta-CP's predictor is for; None without a predictor. `run_study` refuses a
        guarantee with another.
    notes : tuple of str
        Remarks on the results, such as that Meta-CP is left out, and why.
    preferred_backend : str
        Backend of joblib for `run_study` with workers: "threading" if pools are embedded, as each
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
    >>> from metapac.fewshot import PoolStudy, SklearnLearner, run_study, split_classes, summarise
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rng, y = np.random.default_rng(0), np.repeat(np.arange(24), 40)
    >>> x = rng.normal(size=(24, 8))[y] + rng.normal(size=(960, 8))
    >>> pools = split_classes(x, y, train=0, validation=0, calibration=12, test=12, rng=0)
    >>> learner = SklearnLearner(GaussianNB())
    >>> study = PoolStudy(learner, pools.calibration, pools.test, tasks=60, tests=10)
    >>> guarantee = Guarantee(epsilon=0.2, alpha=0.2, delta=0.05)
    >>> summary = summarise(run_study(study, guarantee=guarantee, draws=2), guarantee)
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
        """Backend of joblib for `run_study` with workers."""
        known, new, _ = self._prepare()
        return "threading" if known.thread_safe and new.thread_safe else "loky"

    def prepare(self, progress: Progress | None = None) -> None:
        """Embed the pools and train Meta-CP's predictor, unless that has been done.

        `run_study` calls it before the first draw, so that workers share what it computes.

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
