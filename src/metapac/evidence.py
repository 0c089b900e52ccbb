"""Meta-PS, the method: two steps, one inequality.

*Within* each task, `first_step` takes the largest threshold that is certified to miss at most
epsilon, at each of some levels: the score of a rank that `binomial.allowed_errors_in_task` allows.
*Across* tasks, `Part.second_step` does the same with these thresholds: it takes the one of a rank
that `ranks.joint_ranks` allows, at each level, and the largest of them. What lies between the steps
is `Evidence`, a few numbers per task: all that sites send and that files keep.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac import _common, binomial, data_checks, guarantee, inputs
from metapac._common import Counts, Floats, as_whole_number
from metapac.artefact import encode_floats
from metapac.errors import InvalidInput, keyword
from metapac.grouping import Data, DrawnRows, Statistics
from metapac.guarantee import Guarantee
from metapac.inputs import NAME_RULE
from metapac.planning import Demand, min_sample_size


def first_step(
    data: Data,
    guarantee: Guarantee,
    skipped: frozenset[str] = frozenset(),
    progress: _common.Progress = _common.ignore_progress,
) -> Evidence:
    """Within each task: the largest threshold that is certified, at each level and class."""
    classes = data.class_names(by_class=True) if guarantee.per_class else None

    def rank(sizes: Counts, label: Counts | None) -> Counts:
        return ranks_within(sizes, guarantee, classes, label)

    found = data.order_statistics(rank, by_class=bool(guarantee.per_class), progress=progress)
    facts = data.facts(found.names, found.task_sizes, skipped, found.repeats)
    data_checks.check_facts(facts, skipped, data.name)
    check_sampling(data, [*facts.tasks], guarantee, skipped)
    precision, columns = data.describe()
    evidence = Evidence.from_statistics(found, classes, precision)
    if "prediction" in (columns or {}):
        _warn_if_exact(evidence)
    return evidence._replace(columns=columns, sample=facts.sample)


def check_sampling(
    data: Data, tasks: Sequence[Any], guarantee: Guarantee, skipped: frozenset[str]
) -> None:
    """Object to balanced tasks if examples are said to be i.i.d.; those of one class may be."""
    is_asked = guarantee.sampling == "iid" and not guarantee.per_class
    if is_asked and len(tasks) > 1 and "balanced" not in skipped and data.has_class_scores():
        data_checks.report([data_checks.judge_balanced(data.sizes(by_class=True))], where=data.name)


def _warn_if_exact(evidence: Evidence) -> None:
    """Warn if every prediction equals its true value, as a copied column does."""
    if evidence.lowest.min() == 0 and evidence.sizes.sum() >= data_checks.MIN_ROWS:
        text = "every prediction equals its true value. Is it a copy of it, or has the model been"
        _common.warn(data_checks.CheckWarning(f"{text} trained on these examples?"))


def ranks_within(
    sizes: Counts,
    guarantee: Guarantee,
    classes: Sequence[Any] | None = None,
    label: Counts | None = None,
) -> Counts:
    """Return the rank of the threshold among the scores of a task, at each level; -1 for none.

    With classes, sizes are of groups with the examples of one class, given by its index.
    """
    if classes is not None:
        ranks = np.empty((len(sizes), guarantee.numbers_per_task), dtype=np.int64)
        for index, name in enumerate(classes):
            of_class = label == index
            ranks[of_class] = ranks_within(sizes[of_class], guarantee.for_class(name, classes))
        return ranks
    distinct, place = np.unique(sizes, return_inverse=True)
    table = _rank_table if len(distinct) > _FEW else _cached_rank_table
    return table(tuple(distinct.tolist()), *_rank_rule(guarantee))[place]


def _rank_rule(guarantee: Guarantee) -> tuple[float, tuple[float, ...], str, bool]:
    """Return what the ranks within tasks depend on, beside their sizes."""
    levels = tuple(level.alpha_within for level in guarantee.levels)
    sampling = "capped" if guarantee.is_capped else guarantee.sampling
    return guarantee.miss_rate, levels, sampling, guarantee.randomise is not None


_RANKS: dict[str, Callable[[Counts, float, float], Counts]] = {
    "any": binomial.allowed_errors_at_worst,
    "iid": binomial.allowed_errors,
    "capped": binomial.allowed_errors_in_task,
}


def _rank_table(
    sizes: tuple[int, ...],
    epsilon: float,
    levels: tuple[float, ...],
    sampling: str,
    is_randomised: bool,
) -> Counts:
    """Return the rank of each size at each level; if randomised, followed by that above it."""
    counts, rank = np.array(sizes, dtype=np.int64), _RANKS[sampling]
    ranks = np.stack([rank(counts, epsilon, level) for level in levels], axis=1)
    if not is_randomised:
        return ranks
    return np.hstack([ranks, np.minimum(ranks + 1, counts[:, None] - 1)])


# Studies calibrate many times on tasks of the same few sizes; their ranks are cached.
_FEW = 64
_cached_rank_table = functools.lru_cache(maxsize=256)(_rank_table)


def randomise_thresholds(
    names: Sequence[Any], sizes: Counts, thresholds: Floats, guarantee: Guarantee
) -> Floats:
    """Return the threshold of each task at each level, of the two that its rank may have.

    The tasks are put into the order of a hash of the seed and their names. The first of N tasks has
    V = 1/N, the last V = 1, and a task takes the higher rank where V is at most a limit.
    """
    if not len(names):
        return thresholds[:, : len(guarantee.levels)]
    seed = f"metapac randomise {guarantee.randomise}\n"
    digests = [(_common.hash_text(f"{seed}{name}"), name) for name in map(str, names)]
    place = np.argsort(sorted(range(len(names)), key=digests.__getitem__)) + 1
    epsilon, levels, sampling, _ = _rank_rule(guarantee)
    distinct, which = np.unique(sizes, return_inverse=True)
    limits = [_upper_places(n, epsilon, levels, sampling, len(names)) for n in distinct.tolist()]
    lower, higher = np.hsplit(thresholds, 2)
    return np.where(place[:, None] <= np.array(limits)[which], higher, lower)


@functools.lru_cache(maxsize=4096)
def _upper_places(
    size: int, epsilon: float, levels: tuple[float, ...], sampling: str, tasks: int
) -> tuple[int, ...]:
    """Return at each level the last place at which a task of this size takes the higher rank."""
    ranks = _cached_rank_table((size,), epsilon, levels, sampling, False)[0].tolist()
    chance = functools.partial(binomial.chance_of_next, size, epsilon, is_iid=sampling == "iid")
    return tuple(math.floor(chance(*pair) * tasks) for pair in zip(levels, ranks, strict=True))


UNKNOWN = -1  # the size of a task whose site did not send it


def count_absent(invited: int | None, answered: int) -> int:
    """Return how many of the tasks invited sent nothing."""
    if invited is None:
        return 0
    if (number := as_whole_number("invited", invited)) < answered:
        text = f"invited must be at least {answered}, the number that answered, got {invited}."
        raise InvalidInput(text)
    return number - answered


class Part(NamedTuple):
    """The evidence for one class, or for all of them together, and its guarantee."""

    guarantee: Guarantee
    label: Any
    used: NDArray[np.bool_]
    sizes: Counts
    thresholds: Floats
    lowest: float
    highest: float
    absent: int = 0
    rarest: Counts | None = None  # with all classes together, the size of the smallest

    @property
    def tasks(self) -> int:
        """Number of tasks that count; one that sent nothing counts as ``inf`` at every level."""
        return int(np.count_nonzero(self.used)) + self.absent

    def demand(self) -> Demand:
        """Return the demand on these tasks; an unknown size is inferred from the thresholds.

        A threshold above ``-inf`` shows that its task was large enough for that level.
        """
        g, sizes = self.guarantee, self.sizes if self.rarest is None else self.rarest
        unknown = sizes == UNKNOWN
        if unknown.any():
            needs = [min_sample_size(g.miss_rate, level.alpha_within) for level in g.levels]
            inferred = np.where(self.thresholds > -np.inf, needs, 0).max(axis=1)
            sizes = np.where(unknown, inferred, sizes)
        sizes = np.append(sizes, np.full(self.absent, _common.LARGEST_COUNT))
        return Demand.from_sizes(g, sizes, label=self.label)

    def second_step(self) -> Outcome:
        """Across tasks: the threshold of an allowed rank at each level, and their maximum."""
        used = self.thresholds[self.used]
        ranks = self.guarantee.allowed_low_thresholds(self.tasks) if len(used) else ()
        across = np.full(self.thresholds.shape[1], -np.inf)
        for level, rank in enumerate(ranks):
            if rank >= 0:
                across[level] = np.partition(used[:, level], rank)[rank]
        best = int(np.argmax(across))
        cut = float(across[best]) + 0.0  # no negative zero
        return Outcome(self.label, self.used, best, cut, self._at_bottom(used[:, best], cut))

    def _at_bottom(self, thresholds: Floats, cut: float) -> int:
        """Return how many tasks push the threshold to the lowest score; 0 if it is higher."""
        # A threshold that is the lowest score of a single task is normal. A lowest score that
        # several tasks share, or a probability of 0, counts as the bottom of the scale. If no
        # score is higher, it may as well be the top of the scale, and is not reported. A threshold
        # of 0 is also reported if the lowest score is not known, because sites do not send it.
        if self.highest <= cut or (self.lowest < cut and not self.lowest == -np.inf < cut == 0):
            return 0
        if self.rarest is not None:  # a difference of score and offset
            return 0
        tied = int(np.count_nonzero(thresholds == cut))
        return int(np.count_nonzero(thresholds <= cut)) if tied > 1 or cut == 0 else 0


class Outcome(NamedTuple):
    """The result of the second step for one class, or for all of them together."""

    label: Any
    used: NDArray[np.bool_]
    level: int
    threshold: float
    at_bottom: int

    def remark(self, *, is_interval: bool = False) -> str:
        """Return what makes the guarantee uninformative."""
        if self.threshold == -np.inf:
            return guarantee.describe_trivial(self.label, is_interval=is_interval)
        # The score of a residual is at most 0: an interval of no width is the most informative.
        if not self.at_bottom or (is_interval and self.threshold == 0):
            return ""
        tasks = int(np.count_nonzero(self.used))
        return guarantee.describe_uninformative(
            self.threshold, self.at_bottom, tasks, self.label, is_interval=is_interval
        )


class Evidence(NamedTuple):
    """The threshold of each task at each level and, with ``per_class``, for each class."""

    names: NDArray[Any]
    sizes: Counts
    thresholds: Floats
    lowest: Floats
    precision: np.dtype[Any]
    classes: tuple[Any, ...] | None = None
    columns: dict[str, Any] | None = None
    highest: Floats | None = None
    clusters: Clusters | None = None
    ranges: Floats | None = None
    sample: data_checks.Sample | None = None
    within: DrawnRows | None = None
    absent: int = 0  # tasks invited that sent nothing

    @property
    def contents(self) -> data_checks.Contents:
        """What recognises the examples of each task."""
        ranges = np.full((len(self.names), 2), np.nan) if self.ranges is None else self.ranges
        return data_checks.Contents(self.names, self.sizes.sum(axis=1), ranges)

    @property
    def score_range(self) -> tuple[float, float] | None:
        """The lowest and the highest score of all tasks; None if it is not known."""
        if self.highest is None:
            return None
        return float(self.lowest.min()), float(self.highest.max())

    @property
    def highest_or_inf(self) -> Floats:
        """The highest score of each class; infinity if it was not computed."""
        return np.full(len(self.lowest), np.inf) if self.highest is None else self.highest

    @classmethod
    def from_statistics(
        cls, found: Statistics, classes: tuple[Any, ...] | None, precision: np.dtype[Any]
    ) -> Evidence:
        """Return the evidence in the order statistics of tasks, or of classes in them."""
        shape = (len(found.names), 1 if classes is None else len(classes))
        label = np.zeros_like(found.task) if found.label is None else found.label
        sizes = np.zeros(shape, dtype=np.int64)
        thresholds = np.full((*shape, found.thresholds.shape[1]), -np.inf)
        sizes[found.task, label], thresholds[found.task, label] = found.sizes, found.thresholds
        lowest, highest = data_checks.find_ranges(label, found.low, found.high, shape[1]).T
        ranges = data_checks.find_ranges(found.task, found.low, found.high, len(found.names))
        ends: Any = {"highest": highest, "ranges": ranges}
        return cls(found.names, sizes, thresholds, lowest, precision, classes, **ends)

    def parts(self, guarantee: Guarantee) -> list[Part]:
        """Return the evidence for each class, or for all of them together."""
        if self.absent > guarantee.dishonest:
            text = f"{self.absent} of {len(self.names) + self.absent} invited tasks sent nothing"
            rule = f"more than {keyword('dishonest', guarantee.dishonest)} allows for"
            raise InvalidInput(f"{text}, {rule}.", parameter=("dishonest", "invited"))
        if self.classes is None:
            return [self._part(guarantee, None, 0)]
        guarantee.check_classes(self.classes)
        parts = self._class_parts(guarantee)
        return [self._join(guarantee, parts)] if guarantee.is_together else parts

    def _class_parts(self, guarantee: Guarantee) -> list[Part]:
        """Return the evidence for each class."""
        classes = self.classes or ()
        return [
            self._part(guarantee.for_class(label, classes), label, index, guarantee.is_together)
            for index, label in enumerate(classes)
        ]

    def _join(self, guarantee: Guarantee, parts: Sequence[Part]) -> Part:
        """Return the evidence for all classes together: of each task, that of its worst class."""
        offsets = [(guarantee.offsets or {})[part.label] for part in parts]
        pairs = [*zip(parts, offsets, strict=True)]
        return Part(
            guarantee,
            None,
            parts[0].used,
            self.sizes.sum(axis=1),
            np.min([part.thresholds - offset for part, offset in pairs], axis=0),
            min(part.lowest - offset for part, offset in pairs),
            max(part.highest - offset for part, offset in pairs),
            self.absent,
            self._rarest,
        )

    @property
    def lacking(self) -> NDArray[np.bool_]:
        """Which classes a task is declared to lack: their thresholds are ``inf``, of no example."""
        return np.asarray((self.sizes == 0) & (self.thresholds == np.inf).all(axis=2))

    @property
    def _rarest(self) -> Counts:
        """How many examples each task has of the class that it has fewest of."""
        return np.asarray(np.where(self.lacking, _common.LARGEST_COUNT, self.sizes).min(axis=1))

    def hint_at_lacking(self, guarantee: Guarantee) -> str:
        """Return a task whose sample lacks a class, and what to do if the task does; or nothing."""
        missing = np.argwhere((self.sizes == 0) & ~self.lacking)
        if not (guarantee.is_together and len(missing)):
            return ""
        task, place = missing[0]
        name, label = self.names.tolist()[task], (self.classes or ())[place]
        text = f" Task {name!r} has no example of class {label!r}: if it never has any, declare"
        return f"{text} that with lacking."

    def declare_lacking(
        self, guarantee: Guarantee, lacking: Mapping[Any, Iterable[Any]] | None
    ) -> Evidence:
        """Return the evidence if some tasks are known to lack some classes."""
        if lacking is None:
            return self
        if not guarantee.is_together:
            text = "lacking is for per_class='together'. Leave it out."
            raise InvalidInput(text, parameter="lacking")
        of_lists = isinstance(lacking, Mapping) and not any(
            isinstance(tasks, str) or not isinstance(tasks, Iterable) for tasks in lacking.values()
        )
        if not of_lists:
            text = f"lacking must map classes to lists of tasks, got {_common.brief(lacking)}."
            raise InvalidInput(text)
        thresholds, names = self.thresholds.copy(), [*map(str, self.names.tolist())]
        classes = [*map(str, self.classes or ())]
        for label, tasks in lacking.items():
            for task in tasks:
                if str(label) not in classes or str(task) not in names:
                    text = f"lacking must map classes to tasks, got {task!r} for class {label!r}"
                    raise InvalidInput(f"{text}, which are not both there.")
                place = names.index(str(task)), classes.index(str(label))
                if count := int(self.sizes[place]):
                    text = f"lacking says that task {task!r} has no example of class {label!r}"
                    raise InvalidInput(f"{text}, but it holds {count}.", parameter="lacking")
                thresholds[place] = np.inf
        return self._replace(thresholds=thresholds)

    def _part(
        self, guarantee: Guarantee, label: Any, index: int, is_together: bool = False
    ) -> Part:
        sizes = self.sizes[:, index]
        # A task that lacks a class has too few of it too, declared or not.
        used = (self.sizes.min(axis=1) if is_together else sizes) >= guarantee.min_examples
        if not guarantee.min_examples:
            used[:] = True
        elif (sizes == UNKNOWN).any():
            text = f"min_examples={guarantee.min_examples} needs the sizes of all tasks."
            raise InvalidInput(f"{text} Pass sizes too.", parameter="sizes")
        lowest, highest = float(self.lowest[index]), float(self.highest_or_inf[index])
        thresholds = self.thresholds[:, index]
        if guarantee.randomise is not None:
            thresholds = self._randomised(guarantee, used, sizes, thresholds)
        return Part(guarantee, label, used, sizes, thresholds, lowest, highest, self.absent)

    def _randomised(
        self, guarantee: Guarantee, used: NDArray[np.bool_], sizes: Counts, thresholds: Floats
    ) -> Floats:
        """Return the thresholds of randomised ranks; tasks that are not used have the lower one."""
        if (sizes == UNKNOWN).any():
            text = "randomise needs the sizes of all tasks. Pass sizes too."
            raise InvalidInput(text, parameter="sizes")
        chosen = thresholds[:, : len(guarantee.levels)].copy()
        names = self.names[used].tolist()
        chosen[used] = randomise_thresholds(names, sizes[used], thresholds[used], guarantee)
        return chosen

    def check_certified(self, guarantee: Guarantee, name: str = "task_thresholds") -> None:
        """Raise InvalidInput for a threshold that a task of its size cannot have.

        A larger level allows more errors, so the thresholds of a task never fall with the level.
        """
        names, levels = self.names.tolist(), len(guarantee.levels)
        by_class, lacking = guarantee.is_together, self.lacking
        parts = self._class_parts(guarantee) if by_class else self.parts(guarantee)
        for index, part in enumerate(parts):
            thresholds = self.thresholds[:, index]
            ranks = ranks_within(np.maximum(part.sizes, 0), part.guarantee)
            sent = (thresholds > -np.inf) & (part.sizes != UNKNOWN)[:, None]
            sent &= ~(lacking[:, index] & by_class)[:, None]
            for task, level in np.argwhere(sent & (ranks < 0))[:1]:
                held = f"{name} holds {thresholds[task, level]:g} for task {names[task]!r}"
                rule = f"whose {part.sizes[task]} examples are too few to certify any"
                raise InvalidInput(f"{held}, {rule}. Was it computed with other levels?")
            falls = thresholds[:, 1:] < thresholds[:, :-1]
            falls[:, levels - 1 : levels] = False  # the higher ranks begin
            for task, level in np.argwhere(falls)[:1]:
                before, after = thresholds[task, level : level + 2]
                fall = f"{name} of task {names[task]!r} falls from {before:g} to {after:g}"
                raise InvalidInput(f"{fall}, but rises with the level. Pass the levels in order.")

    def check_ranges(self, name: str = "thresholds") -> None:
        """Raise InvalidInput for a threshold outside the range of the scores of task and class."""
        of_task, sent = self.contents.ranges.T[..., None], self.thresholds  # NaN if not known
        low = np.fmax(of_task[0], self.lowest)[..., None]
        high = np.fmin(of_task[1], self.highest_or_inf)[..., None]
        outside = (sent > -np.inf) & ((sent < low) | (sent > high)) & ~self.lacking[..., None]
        for task, label, _level in np.argwhere(outside)[:1]:
            ends = f"{low[task, label, 0]:g} and {high[task, label, 0]:g}"
            text = f"{name} of task {self.names.tolist()[task]!r} must be in the range of its"
            text += " scores, between the lowest and the highest, which are"
            raise InvalidInput(f"{text} {ends}.")

    def draw_from(self, clusters: Sequence[Any], rng: int) -> Evidence:
        """Return the evidence of one random task of each cluster."""
        drawn = draw_tasks(self.names.tolist(), clusters, rng)
        names = inputs.as_task_names([clusters[position] for position in drawn])
        return self._replace(
            names=self.names[drawn],
            sizes=self.sizes[drawn],
            thresholds=self.thresholds[drawn],
            clusters=Clusters(names, len(self.names), rng),
            ranges=None if self.ranges is None else self.ranges[drawn],
        )


class Clusters(NamedTuple):
    """The clusters of the calibration tasks; one task was drawn from each."""

    names: NDArray[Any]
    tasks: int
    rng: int

    def to_json(self) -> dict[str, Any]:
        """Return the clusters as JSON can hold them."""
        return {"names": self.names.tolist(), "tasks": self.tasks, "rng": self.rng}

    @classmethod
    def from_json(cls, body: Mapping[str, Any], tasks: int) -> Clusters:
        """Return the clusters that `to_json` prepared."""
        names = body["names"]
        if len(names) != tasks or len({*map(str, names)}) != tasks or body["tasks"] < tasks:
            text = f"evidence.clusters must name a cluster of its own for each of {tasks} tasks,"
            text += f" drawn from at least as many, got {_common.brief(names)} of {body['tasks']}"
            raise InvalidInput(f"{text} tasks.")
        tasks, rng = (
            as_whole_number(f"clusters.{k}", body[k], minimum=0) for k in ("tasks", "rng")
        )
        known = inputs.as_task_names(names)
        inputs.as_json_names(known)
        return cls(known, tasks, rng)


def draw_tasks(names: Sequence[Any], clusters: Sequence[Any], rng: int) -> list[int]:
    """Return the positions of one random task of each cluster, in ascending order.

    Which task is drawn depends on the seed, the name of the cluster and the names of its tasks. It
    does not depend on scores, on other clusters, or on the order of the tasks.
    """
    seed = as_whole_number("rng", rng, minimum=0)
    members: dict[str, list[int]] = {}
    for position, cluster in enumerate(clusters):
        members.setdefault(str(cluster), []).append(position)
    drawn = []
    for cluster, inside in members.items():
        own = np.random.default_rng([seed, int(_common.hash_text(cluster), 16)])
        ordered = sorted(inside, key=lambda position: str(names[position]))
        drawn.append(ordered[int(own.integers(len(ordered)))])
    return sorted(drawn)


def join_evidence(old: Evidence, new: Evidence) -> Evidence:
    """Return the evidence of old and new tasks together."""
    old, new = _align_classes(old, new)
    return old._replace(
        names=inputs.append_new_names(old.names, new.names),
        sizes=np.concatenate([old.sizes, new.sizes]),
        thresholds=np.concatenate([old.thresholds, new.thresholds]),
        lowest=np.minimum(old.lowest, new.lowest),
        highest=np.maximum(old.highest_or_inf, new.highest_or_inf),
        precision=inputs.coarsest_precision([old.precision, new.precision]),
        clusters=_join_clusters(old.clusters, new.clusters),
        ranges=np.concatenate([old.contents.ranges, new.contents.ranges]),
        within=join_draws([old.within, new.within]),
    )


def join_draws(draws: Sequence[DrawnRows | None]) -> DrawnRows | None:
    """Return the draw from the rows of all tasks; either all have units, or none."""
    known = [draw for draw in draws if draw is not None]
    if known and len(known) < len(draws):
        raise InvalidInput(
            "within is for all tasks, but here only some of them have units.", parameter="within"
        )
    return functools.reduce(DrawnRows.join, known) if known else None


def _join_clusters(old: Clusters | None, new: Clusters | None) -> Clusters | None:
    """Return the clusters of old and new tasks; either both have them, or neither."""
    if (old is None) != (new is None):
        only = "new" if old is None else "old"
        raise InvalidInput(f"clusters are for all tasks, but here only the {only} tasks have them.")
    if old is None or new is None:
        return None
    known, names = old.names.tolist(), new.names.tolist()
    again = {*map(str, known)}.intersection(map(str, names))
    for name in (name for name in names if str(name) in again):
        text = f"clusters holds {name!r}, which was calibrated already"
        raise InvalidInput(f"{text}. Add only tasks of new clusters.")
    return Clusters(inputs.as_task_names(known + names), old.tasks + new.tasks, old.rng)


def _align_classes(old: Evidence, new: Evidence) -> tuple[Evidence, Evidence]:
    """Return both with the union of their classes; a missing class counts as no examples."""
    if old.classes is None or new.classes is None:
        return old, new
    if type(old.classes[0]) is not type(new.classes[0]):
        got = f"got {new.classes[0]!r}, but the classes so far include {old.classes[0]!r}"
        raise InvalidInput(f"labels must be of one type, {got}. Convert them.")
    unseen = [label for label in new.classes if label not in old.classes]
    if unseen and old.columns is not None:
        raise InvalidInput(
            f"labels holds the class {unseen[0]!r}, which the table calibrated on does not have."
        )
    classes = tuple(sorted({*old.classes, *new.classes})) if unseen else old.classes
    return with_classes(old, classes), with_classes(new, classes)


def with_classes(evidence: Evidence, classes: tuple[Any, ...]) -> Evidence:
    """Return the evidence with its classes in another order, possibly with more of them."""
    assert evidence.classes is not None
    place = [classes.index(label) for label in evidence.classes]
    tasks, _, levels = evidence.thresholds.shape
    sizes = np.zeros((tasks, len(classes)), dtype=np.int64)
    thresholds = np.full((tasks, len(classes), levels), -np.inf)
    lowest, highest = np.full(len(classes), np.inf), np.full(len(classes), -np.inf)
    sizes[:, place], thresholds[:, place] = evidence.sizes, evidence.thresholds
    lowest[place], highest[place] = evidence.lowest, evidence.highest_or_inf
    new: dict[str, Any] = {"sizes": sizes, "thresholds": thresholds, "classes": classes}
    return evidence._replace(**new, lowest=lowest, highest=highest)


def encode_evidence(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON can hold it; without ``per_class``, with no axis of classes."""
    found, ranges = evidence, evidence.ranges
    axis = 0 if found.classes is None else slice(None)
    body = {
        "tasks": inputs.as_json_names(found.names),
        "classes": found.classes and [*found.classes],
        "highest": None if found.highest is None else encode_floats(found.highest.tolist()),
        "clusters": found.clusters and found.clusters.to_json(),
        "within": found.within and found.within._asdict(),
        "absent": found.absent or None,
        "ranges": None if ranges is None else [_encode_range(*ends) for ends in ranges.tolist()],
        "name_rule": NAME_RULE,
        "sizes": found.sizes[:, axis].tolist(),
        "thresholds": encode_floats(found.thresholds[:, axis].tolist()),
        "lowest": encode_floats(found.lowest.tolist()),
    }
    return {name: value for name, value in body.items() if value is not None}


def _encode_range(low: float, high: float) -> list[Any] | None:
    return None if low != low else encode_floats([low, high])  # NaN: not known


def decode_evidence(body: dict[str, Any], levels: int, precision: np.dtype[Any]) -> Evidence:
    """Return the evidence that `encode_evidence` prepared."""
    inputs.check_distinct(body["tasks"])
    names = inputs.as_task_names(body["tasks"])
    classes = inputs.as_classes(body["classes"]) if "classes" in body else None
    by_task = (len(names),) if classes is None else (len(names), len(classes))
    shape = (len(names), 1 if classes is None else len(classes))
    # Early versions did not store the lowest scores.
    read = functools.partial(_as_shape, {"lowest": [-np.inf] * shape[1], **body})
    sizes = read("sizes", by_task, np.int64).reshape(shape)
    _common.as_whole_numbers("evidence.sizes", sizes, minimum=-1 if classes is None else 0)
    evidence = Evidence(
        names,
        sizes,
        read("thresholds", (*by_task, levels), np.float64).reshape(*shape, levels),
        read("lowest", shape[1:], np.float64),
        precision,
        classes,
        highest=read("highest", shape[1:], np.float64) if "highest" in body else None,
        clusters=Clusters.from_json(body["clusters"], len(names)) if "clusters" in body else None,
        ranges=_read_ranges(body, len(names)) if "ranges" in body else None,
        within=DrawnRows.from_json(body["within"]) if "within" in body else None,
        absent=as_whole_number("evidence.absent", body.get("absent", 0), minimum=0),
    )
    evidence.check_ranges("evidence.thresholds")
    if not inputs.is_representable(evidence.thresholds, precision).all(axis=(1, 2)).any():
        raise InvalidInput(f"evidence.thresholds holds no {precision.name} scores.")
    return evidence


def _as_shape(body: dict[str, Any], name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return numbers, infinities among them as strings, that must have a shape."""
    try:
        array = np.array(body[name], dtype=dtype)
    except (ValueError, OverflowError):
        message = f"evidence.{name} holds lists of unequal length, or no numbers."
        raise InvalidInput(message) from None
    if array.shape != shape:
        rule = f"evidence.{name} must have shape {shape}, by tasks, classes and levels"
        raise InvalidInput(f"{rule}, got {array.shape}.")
    return array


def _read_ranges(body: dict[str, Any], tasks: int) -> NDArray[Any]:
    """Return the lowest and the highest score of each task; null becomes NaN."""
    ends = [(np.nan, np.nan) if pair is None else pair for pair in body["ranges"]]
    return _as_shape({"ranges": ends}, "ranges", (tasks, 2), np.float64)
