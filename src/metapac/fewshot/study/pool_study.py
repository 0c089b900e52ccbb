"""The study of a learner on pools of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metapac import _common
from metapac._common import Array, Floats, Progress, Seed, as_whole_number, ignore_progress
from metapac._text import name_score
from metapac.errors import InvalidInput, MissingExtra
from metapac.fewshot.adapters import Learner
from metapac.fewshot.pools import GroupPool, Pools, draw_all
from metapac.fewshot.scoring import SharedEmbeddings, describe_learner, score_matrix, score_tasks
from metapac.fewshot.study.draws import Draw, ScoredTask, Study
from metapac.fewshot.study.methods import digest_code
from metapac.fewshot.tasks import Choice, Task, query_sizes
from metapac.fewshot.tensors import data_checksum
from metapac.score_functions import ScoreFunction

TASKS, TESTS = 500, 50
_TEST_QUERIES, _LABELLED = 100, 20  # of each class, as in the paper
PREDICTOR_TASKS = 1000  # that the predictor is trained on, as in the stored experiments


def check_pools(calibration: Any, test: Any, distinct: bool) -> None:
    """Raise InvalidInput if two pools cannot be studied together."""
    for name, pool in (("calibration", calibration), ("test", test)):
        if not (hasattr(pool, "tasks") and hasattr(pool, "positions")):
            given = type(pool).__name__
            raise InvalidInput(f"{name} must be a pool, such as ClassPool(x, y), got {given}.")
    kinds = f"{type(calibration).__name__} and {type(test).__name__}"
    if calibration.unit != test.unit:
        raise InvalidInput(f"calibration and test must be pools of one kind, got {kinds}.")
    if test is not calibration:
        Pools(calibration=calibration, test=test)  # raises if they share a class
    if distinct and test.unit != "group":
        raise InvalidInput(f"distinct=True needs a GroupPool, got {kinds}.")


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
        rule = f"tasks + tests must be at most {total}, the groups, got {tasks + tests}."
        raise InvalidInput(rule, parameter=("tasks", "tests"))
    return tasks, tests


def describe_group_reuse(groups: int, tasks: int) -> str:
    """Return what follows if calibration tasks are groups that were drawn with replacement."""
    reuse = "may be in several tasks"
    if tasks > groups:
        reuse = f"is in {tasks / groups:.3g} tasks on average"
    return (
        f"{tasks} calibration tasks from {groups} groups: a group {reuse}. A guarantee calibrated "
        f"on them is for these {groups} groups, not for new ones. Pass distinct=True to use each "
        "group once."
    )


def join_groups(one: GroupPool, other: GroupPool) -> GroupPool:
    """Return one pool with the groups of two, to be divided anew in each draw."""
    both = ([getattr(pool, name) for pool in (one, other)] for name in ("x", "y", "groups"))
    joined = GroupPool(*map(np.concatenate, both), classes=one.classes)
    joined.columns = one.columns
    return joined


def count_test_queries(
    pool: Any, shots: Choice, labelled: int | None, queries: int | None, unlabelled: int = 0
) -> tuple[int, int]:
    """Return how many examples of a new task are for PS-Test, and how many for testing."""
    # Both are, like ``unlabelled``, numbers for each class or for the group.
    if queries is None or labelled is None:
        spare = spare_examples(pool, shots, unlabelled, least=1 if labelled == 0 else 2)
        if labelled is None:
            beside = spare // 4 if queries is None else spare - queries
            labelled = max(1, min(_LABELLED, beside))
        queries = max(1, min(_TEST_QUERIES, spare - labelled)) if queries is None else queries
    labelled = as_whole_number("labelled", labelled, minimum=0)
    queries = as_whole_number("test_queries", queries)
    smallest = min(map(len, pool.positions))
    if pool.unit != "domain" and smallest < np.max(shots) + unlabelled + labelled + queries:
        given = f"shots + test_queries + labelled = {np.max(shots)} + {queries} + {labelled}"
        given += f", with {unlabelled} unlabelled," * (unlabelled > 0)
        rule = f"{given} must be at most {smallest}, the smallest {pool.unit}; labelled=0 leaves"
        raise InvalidInput(f"{rule} PS-Test out.", parameter=("test_queries", "labelled"))
    return labelled, queries


def spare_examples(pool: Any, shots: Any, unlabelled: int = 0, least: int = 1) -> int:
    """Return how many queries every class, or group, of a pool has; raise if fewer than a few."""
    if pool.unit == "domain":
        raise InvalidInput("queries, test_queries and labelled must be given for a DomainPool.")
    sizes = [len(members) - unlabelled for members in pool.positions]
    spare = min(sizes) - int(np.max(shots))
    if spare < least:
        beside = f" beside {unlabelled} unlabelled ones" if unlabelled else ""
        rule = f"each {pool.unit} must have shots + {least} examples{beside}"
        smallest = f"the smallest, {pool.names[sizes.index(min(sizes))]!r}, has {min(sizes)}"
        raise InvalidInput(f"{rule}; {smallest}. Leave such out of the data, or lower shots.")
    return spare


@dataclass(frozen=True, eq=False)
class PoolScores:
    """Scores of tasks of one pool: from its embeddings, or of a learner adapted to each task."""

    learner: Learner | SharedEmbeddings
    bank: Any = None
    score: Any = None
    unlabelled: int = 0

    @property
    def is_embedded(self) -> bool:
        """Whether tasks are scored from embeddings, which know no unlabelled examples."""
        return self.bank is not None and self.score is None and not self.unlabelled

    @property
    def thread_safe(self) -> bool:
        return self.is_embedded and bool(getattr(self.bank, "thread_safe", False))

    def true_scores(self, tasks: Sequence[Task]) -> Array:
        """Return the scores of the true labels of all queries, to calibrate on."""
        if self.is_embedded:
            return np.asarray(self.bank.scores(tasks))
        return score_tasks(self.learner, tasks, score=self.score)[0]

    def all_scores(self, tasks: Sequence[Task]) -> list[Floats]:
        """Return the scores of all labels of the queries of each task, as in deployment."""
        if not self.is_embedded:
            return [score_matrix(self.learner, task, score=self.score) for task in tasks]
        if hasattr(self.bank, "predict_tasks"):
            return list(self.bank.predict_tasks(tasks))
        return [self.bank.predict_proba(task) for task in tasks]

    def leave_one_out(self, tasks: Sequence[Task]) -> Floats:
        """Return the nonconformity of support examples: minus their scores, each left out."""
        labelled = [replace(task, unlabelled=None) for task in tasks] if self.unlabelled else tasks
        return -np.asarray(self.bank.leave_one_out(labelled))

    def predict_quantiles(self, predictor: Any, tasks: Sequence[Task]) -> Floats | None:
        """Return the predicted quantile of each task, from its support set alone."""
        if predictor is None:
            return None
        return np.asarray(predictor.predict(self.leave_one_out(tasks)), np.float64)


def has_bank(learner: Learner, pool: Any) -> bool:
    """Return whether the tasks of a pool can be scored from its embeddings."""
    return hasattr(learner, "bank") and getattr(pool, "transform", None) is None


def describe_pool(pool: Any) -> dict[str, Any]:
    """Return a description of a pool, with a checksum of its data."""
    labels = [getattr(pool, name) for name in ("groups", "domains") if hasattr(pool, name)]
    described = {"unit": pool.unit, "names": len(pool.names), "examples": len(pool.y)}
    return described | {"checksum": data_checksum(np.asarray(pool.x), pool.y, *labels)}


def _describe_score(score: Any) -> str | None:
    """Return the name of a score function; one of the user's own has a checksum of its code."""
    if score is None or isinstance(score, str | ScoreFunction):
        return None if score is None else name_score(score)
    try:
        return f"{getattr(score, '__qualname__', type(score).__name__)} {digest_code(score)}"
    except Exception as error:  # whatever a value that it uses raises
        lack = f"the code of score cannot be compared ({error})"
        raise InvalidInput(f"{lack}. Pass description={{...}} with a version of it.") from error


class PoolStudy(Study):
    """Calibration draws of a learner: tasks drawn from pools, and scored together.

    Parameters
    ----------
    learner : Learner
        Any learner. One with a method ``bank(x)`` embeds each pool once, before the first draw;
        any other is adapted to each task of each draw.
    calibration, test : ClassPool, GroupPool or DomainPool
        Pools that calibration tasks and new tasks are drawn from; they may be the same pool.
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
        quarter of what the smallest class or group has. With 0, PS-Test is left out.
    tasks, tests : int, optional
        Number of calibration tasks and of new tasks in a draw. By default 500 and 50; with
        ``distinct``, the numbers of calibration groups and of test groups.
    distinct : bool, optional
        Use every group at most once in a draw, so that a guarantee is for new groups. Each draw
        then divides the groups of both pools, or of the one `GroupPool` passed as both, at random.
        By default, and with False, groups are drawn with replacement, and a guarantee is for these
        groups only: ``notes`` says so, and by default a warning if the tasks outnumber the groups.
    score : str, ScoreFunction or callable, optional
        Score function, as in `metapac.fewshot.score_tasks`; by default the learner's probability.
        With one, tasks are scored by adapting the learner, not from embeddings.
    unlabelled : int, default 0
        Number of unlabelled examples of a task, of all classes together, which are not scored. With
        them, too, the learner is adapted to each task.
    predictor : QuantilePredictor, ClassPool or GroupPool, optional
        Meta-CP's quantile predictor, or a pool to train it on that shares no class or group with
        the others. Without it, Meta-CP is left out, and ``notes`` says why.
    epsilon : float, default 0.1
        Miss rate whose quantile the predictor learns if it is trained: that of the guarantee.
    banks : tuple, optional
        Embeddings of both pools, from ``learner.bank``, which studies may share; by default they
        are computed.
    notes : sequence of str, default ()
        Further remarks on the results, put after those of the study.
    description : dict, optional
        Everything that the draws depend on, as JSON can hold it; by default it is collected. A
        function inside a learner is described by its name alone.

    Attributes
    ----------
    epsilon : float or None
        Miss rate that Meta-CP's predictor is for; None without a predictor.
    notes : tuple of str
        Remarks on the results, such as that Meta-CP is left out, and why.
    preferred_backend : str
        Backend of joblib for `run_study`: "threading" with thread-safe banks, otherwise "loky".

    Raises
    ------
    InvalidInput
        If a number is out of its range, or a pool has too few classes, groups or examples.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import PoolStudy, PrototypeLearner, split_classes
    >>> rng, y = np.random.default_rng(0), np.repeat(np.arange(24), 40)
    >>> x = rng.normal(size=(24, 8))[y] + rng.normal(size=(960, 8))
    >>> pools = split_classes(x, y, train=0, validation=0, calibration=12, test=12, rng=0)
    >>> study = PoolStudy(PrototypeLearner(), pools.calibration, pools.test, tasks=60, tests=10)
    >>> len(study.draw(rng).tests)
    10
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
        score: Any = None,
        unlabelled: int = 0,
        predictor: Any = None,
        epsilon: float = 0.1,
        banks: tuple[Any, Any] | None = None,
        notes: Sequence[str] = (),
        description: dict[str, Any] | None = None,
    ) -> None:
        self.distinct, self.score = bool(distinct), score
        self.unlabelled = as_whole_number("unlabelled", unlabelled, minimum=0)
        if banks is not None and score is not None and predictor is None:
            raise InvalidInput("banks hold probabilities only: leave out banks or score.")
        check_pools(calibration, test, self.distinct)
        self.tasks, self.tests = count_tasks(calibration, test, self.distinct, tasks, tests)
        if self.distinct and test is not calibration:
            if banks is not None:
                raise InvalidInput("banks with distinct=True must be those of one GroupPool.")
            calibration = test = join_groups(calibration, test)
        self.calibration, self.test = calibration, test
        self._shape: dict[str, Any] = {"shots": shots}
        if getattr(test, "unit", None) != "group":
            self._shape["ways"] = ways
        # Of a class, at most; of a group, all.
        self._others = -(-self.unlabelled // int(np.min(self._shape.get("ways", 1))))
        counts = count_test_queries(test, shots, labelled, test_queries, self._others)
        self.labelled, self.test_queries = counts
        if queries is None and calibration.unit != "group":  # of groups, all the rest of each
            queries = spare_examples(calibration, shots, self._others)
        if self.unlabelled:
            self._shape["unlabelled"] = self.unlabelled
        self.queries = queries
        self._draw_tasks(0, 0)  # fails fast, before the pools are embedded
        self._learner, self._banks = learner, banks
        self._prepared: tuple[PoolScores, PoolScores, Any] | None = None
        obstacle = self._find_obstacle(predictor)
        self._predictor = predictor if obstacle is None else None  # trained, or a pool to train on
        self.epsilon: float | None = getattr(self._predictor, "epsilon", None)
        if self._predictor is not None and not _can_predict(predictor):
            self.epsilon = epsilon
        left_out = [] if self.labelled else ["PS-Test is left out: labelled=0."]
        left_out += [] if obstacle is None else [f"Meta-CP is left out: {obstacle}."]
        self.notes = (*left_out, *self._describe_reuse(distinct is None), *notes)
        self._description = self._describe() if description is None else description

    def _describe_reuse(self, warns: bool) -> Iterator[str]:
        """Yield what limits a guarantee if groups, or all pools, are used more than once."""
        if self.distinct:
            return
        if self.calibration.unit == "group":
            yield (note := describe_group_reuse(len(self.calibration.names), self.tasks))
            if warns and self.tasks > len(self.calibration.names):
                _common.warn(note)
        if self.test is self.calibration:
            yield "New tasks are drawn from the pool that was calibrated on."

    @property
    def preferred_backend(self) -> str:
        """Backend of joblib for `run_study` with workers."""
        known, new, _ = self._prepare()
        return "threading" if known.thread_safe and new.thread_safe else "loky"

    def prepare(self, progress: Progress | None = None) -> None:
        """Embed the pools and train Meta-CP's predictor, once, before `run_study` starts workers.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(stage, done, total)``.
        """
        self._prepare(progress or ignore_progress)

    def _prepare(self, report: Progress = ignore_progress) -> tuple[PoolScores, PoolScores, Any]:
        """Score both pools and train Meta-CP's predictor, the first time that it is called."""
        if self._prepared is None:
            report("embedding the pools", 0, None)
            first, second = self._banks or (None, None)
            known = self._score_pool(self.calibration, first)
            is_same = self.test is self.calibration and self._banks is None
            new = known if is_same else self._score_pool(self.test, second)
            self._prepared = known, new, self._fit_predictor(report)
        return self._prepared

    def _score_pool(self, pool: Any, bank: Any = None) -> PoolScores:
        """Return the scores of a pool, embedded once if the learner can and that is of use."""
        is_used = not (self.score or self.unlabelled) or self._predictor is not None
        if bank is None and is_used and has_bank(self._learner, pool):
            bank = self._learner.bank(pool.x)  # type: ignore[attr-defined]
        return PoolScores(SharedEmbeddings(self._learner), bank, self.score, self.unlabelled)

    def sample(self, rng: np.random.Generator) -> tuple[Sequence[Task], Sequence[Task]]:
        """Return the calibration tasks and the new tasks of a draw.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        calibration, tests : sequence of Task
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
        known, new = (None, None) if self.distinct else (self.tasks, self.tests)
        examples = self.labelled + self.test_queries
        return [
            self.calibration.tasks(known, **self._shape, queries=self.queries, rng=for_calibration),
            self.test.tasks(new, **self._shape, queries=examples, rng=for_test),
        ]

    def draw(self, rng: np.random.Generator) -> Draw:
        tasks, tests = self.sample(rng)
        known, _, predictor = self._prepare()
        names = np.arange(len(tasks)).repeat(query_sizes(tasks))
        quantiles = known.predict_quantiles(predictor, tasks)
        return Draw(known.true_scores(tasks), names, self._score_tests(tests), quantiles)

    def predict_proba(self, task: Task) -> Floats:
        """Return the scores of all labels of the queries of a new task, as they are in deployment.

        Parameters
        ----------
        task : Task
            Task of the test pool.

        Returns
        -------
        ndarray, shape (q, classes)
        """
        return self._prepare()[1].all_scores([task])[0]

    def describe(self) -> dict[str, Any]:
        return self._description

    def _score_tests(self, tasks: Sequence[Task]) -> list[ScoredTask]:
        """Return scored new tasks; the first queries of each class are the labelled examples."""
        _, new, predictor = self._prepare()
        predicted = new.predict_quantiles(predictor, tasks)
        quantiles = [None] * len(tasks) if predicted is None else predicted.tolist()
        of_class = self.labelled + self.test_queries

        def judge(task: Task, table: Floats, quantile: float | None) -> ScoredTask:
            known = np.arange(len(task.query)) % of_class < self.labelled
            options: Any = {"labelled": known, "quantile": quantile}
            return ScoredTask.from_predictions(table, task.query_y, **options)

        return [*map(judge, tasks, new.all_scores(tasks), quantiles)]

    def _find_obstacle(self, predictor: Any) -> str | None:
        """Return why Meta-CP is left out, and warn if the reason is unexpected."""
        if predictor is None:
            return "no pool was given to train its quantile predictor on; pass one as predictor"
        obstacle, reason = self._try_predictor(predictor), ""
        if self._banks is None and not has_bank(self._learner, self.test):
            reason = "needs the scores of support examples left out, and this learner has no bank"
        elif any(np.ndim(choices) and len(choices) > 1 for choices in self._shape.values()):
            reason = "needs tasks with equally many support examples"
        elif np.max(self._shape["shots"]) < 2:
            reason = "leaves one support example out, and with one shot its class then has none"
        obstacle = f"its quantile predictor {reason}" if reason else obstacle
        if obstacle is not None:
            _common.warn(f"Meta-CP is left out: {obstacle}.")
        return obstacle

    def _try_predictor(self, predictor: Any) -> str | None:
        """Return why a predictor cannot be used, or trained on a pool; None if it can."""
        try:
            _common.require("torch", extra="torch", purpose="Meta-CP")
        except MissingExtra as error:
            return str(error)
        if _can_predict(predictor):
            return None
        if not hasattr(predictor, "positions"):
            given = type(predictor).__name__
            raise InvalidInput(f"predictor must be a QuantilePredictor or a pool, got {given}.")
        for other in (self.calibration, self.test):
            Pools(train=predictor, calibration=other)  # raises if they share a class
        try:
            queries = self._predictor_queries(predictor)
            predictor.tasks(1, **self._shape, queries=queries, rng=0)
        except InvalidInput as error:
            return f"its quantile predictor cannot be trained: {str(error).rstrip('.')}"
        return None

    def _predictor_queries(self, pool: Any) -> int:
        """Return how many queries the tasks have that a quantile predictor is trained on."""
        return min(self.test_queries, spare_examples(pool, self._shape["shots"], self._others))

    def _fit_predictor(self, report: Progress) -> Any:
        pool: Any = self._predictor
        if pool is None or _can_predict(pool):
            return pool
        from metapac.fewshot.quantile_predictor import QuantilePredictor

        report("training Meta-CP's quantile predictor", 0, None)
        scores = self._score_pool(pool)
        queries = self._predictor_queries(pool)
        tasks = list(pool.tasks(PREDICTOR_TASKS, **self._shape, queries=queries, rng=0))
        names = np.arange(len(tasks)).repeat([len(task.query) for task in tasks])
        predictor = QuantilePredictor(epsilon=self.epsilon or 0, rng=0)
        targets = predictor.targets(scores.true_scores(tasks), names)
        return predictor.fit(scores.leave_one_out(tasks), targets)

    def _has_new_scores(self) -> bool:
        """Return whether scores differ from those of 0.2, so that draws must not be mixed."""
        return self.score is not None or not hasattr(self._learner, "_on_embeddings")

    def _describe(self) -> dict[str, Any]:
        names = ("queries", "test_queries", "labelled", "tasks", "tests", "distinct")
        return {
            "study": "pools",
            "learner": describe_learner(self._learner),
            "calibration": describe_pool(self.calibration),
            "test": describe_pool(self.test),
            **{name: np.asarray(choices).tolist() for name, choices in self._shape.items()},
            **{name: getattr(self, name) for name in names},
            "score": _describe_score(self.score),
            **({"scoring": 2} if self._has_new_scores() else {}),
            "notes": list(self.notes),
        }


def _can_predict(predictor: Any) -> bool:
    """Return whether a predictor is trained, and not a pool to train one on."""
    return hasattr(predictor, "predict")
