"""Groups of rows: names, their division into training and calibration, support of each."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from metapac import _ids, shortage
from metapac._checks import brief, listed
from metapac._types import Array, Counts, Seed
from metapac.bisection import min_integer
from metapac.calibration import MetaPS
from metapac.demands import Demand
from metapac.evidence import collect_evidence
from metapac.evidence.joining import with_classes
from metapac.exceptions import InfeasibleGuarantee, InvalidInput, Message, Parameter
from metapac.meaning.findings import report
from metapac.meaning.judges import judge_task_names


class Division(NamedTuple):
    """Names of the groups to train on, and of those to calibrate on, in the order of the draw."""

    training: list[Any]
    calibration: list[Any]
    is_drawn: bool = True  # False if the groups were listed


def as_groups(groups: Any, allow: Iterable[str] = ()) -> Array:
    """Return the group of each row, checked."""
    if groups is None:
        raise InvalidInput(
            "{} must name the site, hospital or customer of each row: the guarantee is about new "
            "ones. Pass groups=frame['site']; inside a scikit-learn pipeline or search, call "
            "sklearn.set_config(enable_metadata_routing=True) first.",
            Parameter("groups"),
        )
    if isinstance(groups, str):
        raise InvalidInput(
            "{} must be the column with the group of each row, not its name: pass "
            "groups=frame[{!r}].",
            Parameter("groups"),
            groups,
        )
    try:
        ids = _ids.as_task_ids(groups)
        names = _distinct_names(ids)
        report([judge_task_names(names, what="group")], allow)
    except InvalidInput as error:
        raise InvalidInput("{} are the tasks: {}", Parameter("groups"), error.message) from error
    return ids


def _distinct_names(ids: Array) -> list[Any]:
    """Return the distinct groups, which must be strings or integers of one type."""
    try:
        names = _ids.as_task_names(list(dict.fromkeys(ids.tolist())))
    except TypeError as error:
        raise _ids.unhashable_task(error) from error
    return _ids.as_json_names(names)


def divide_groups(groups: Array, calibration: Any, rng: Seed) -> Division:
    """Divide whole groups into training and calibration, by their names alone."""
    names = list_groups(groups)
    if calibration is None or isinstance(calibration, str | numbers.Number):
        count = _count_calibration(calibration, len(names))
        drawn = [names[i] for i in np.random.default_rng(rng).permutation(len(names))]
        return Division(drawn[count:], drawn[:count])
    chosen = _named_groups(calibration, names)
    training = [name for name in names if name not in chosen]
    if not training:
        raise InvalidInput(
            "{} lists every group, and none is left to train on. Leave one out, or train the model "
            "elsewhere and pass {}.",
            Parameter("calibration"),
            Parameter("prefit", True),
        )
    return Division(training, [name for name in names if name in chosen], is_drawn=False)


def list_groups(groups: Array) -> list[Any]:
    """Return the distinct groups in an order that does not depend on that of the rows."""
    return sorted(dict.fromkeys(groups.tolist()), key=str)


def _count_calibration(calibration: Any, total: int) -> int:
    """Return how many groups to calibrate on: at least one, and one is left to train on."""
    if total < 2:
        raise InvalidInput(
            "{} must hold at least two groups, one to train on and one to calibrate on, got {}. "
            "With a single source of data, use metapac.PS.",
            Parameter("groups"),
            total,
        )
    if isinstance(calibration, int | np.integer) and not isinstance(calibration, bool):
        if 1 <= calibration < total:
            return int(calibration)
    elif isinstance(calibration, float | np.floating) and 0 < calibration < 1:
        return min(max(round(float(calibration) * total), 1), total - 1)
    raise InvalidInput(
        "{} must be a fraction of the groups, a number of groups from 1 to {}, or a list of "
        "groups, got {}.",
        Parameter("calibration"),
        total - 1,
        brief(calibration),
    )


def _named_groups(calibration: Any, names: list[Any]) -> set[Any]:
    """Return the groups in a list of names."""
    try:
        wanted = {*_ids.as_task_ids(calibration).tolist()}
    except (InvalidInput, TypeError) as error:
        raise InvalidInput(
            "{} must list groups, got {}.", Parameter("calibration"), brief(calibration)
        ) from error
    unknown = sorted(map(repr, wanted - {*names}))
    if unknown or not wanted:
        raise InvalidInput(
            "{} must list some of the groups {}, got {}.",
            Parameter("calibration"),
            listed([*map(repr, names)]),
            listed(unknown) or "none",
        )
    return wanted


def rows_of(groups: Array, names: Iterable[Any]) -> Counts:
    """Return the positions of the rows of some groups, in their order."""
    chosen = {*names}
    return np.flatnonzero([name in chosen for name in groups.tolist()])


def mean_by_group(groups: Array, values: Array) -> dict[Any, float]:
    """Return the mean of the values of each group."""
    names = list_groups(groups)
    place = {name: i for i, name in enumerate(names)}
    index = np.array([place[name] for name in groups.tolist()], dtype=np.int64)
    means = np.bincount(index, weights=values) / np.bincount(index)
    return dict(zip(names, means.tolist(), strict=True))


def draw_support(groups: Array, shots: int, rng: Seed) -> Iterator[tuple[Counts, Counts]]:
    """Yield for each group the rows to adapt to, drawn at random, and the other rows.

    Groups come in the order of their names, so the draw does not depend on the order of the rows
    of other groups.
    """
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(groups.tolist()):
        rows.setdefault(name, []).append(row)
    small = [name for name in rows if len(rows[name]) <= shots]
    if small:
        raise InvalidInput(
            "{} takes {} rows of each group to adapt the model and needs one more to score, but {} "
            "{} fewer. Leave {} out: the guarantee is then about groups with more rows.",
            Parameter("shots", shots),
            shots,
            listed([*map(repr, small)]),
            "has" if len(small) == 1 else "have",
            "it" if len(small) == 1 else "them",
        )
    generator = np.random.default_rng(rng)
    for name in list_groups(groups):
        shuffled = generator.permutation(rows[name])
        yield shuffled[:shots], np.sort(shuffled[shots:])


class Counted(NamedTuple):
    """The groups and classes of the rows, which decide whether a guarantee is feasible."""

    groups: Array
    labels: Array | None  # None unless each class has its guarantee
    classes: tuple[Any, ...] | None
    shots: int
    is_interval: bool = False

    def demands(self, method: MetaPS, names: Iterable[Any]) -> list[Demand]:
        """Return what a guarantee requires of some groups, for each class or for all together."""
        guarantee = method._make_guarantee()
        rows = rows_of(self.groups, names)
        if self.shots:
            drawn = draw_support(self.groups[rows], self.shots, 0)
            rows = rows[np.concatenate([query for _, query in drawn])]
        labels = None if self.labels is None else self.labels[rows]
        evidence = collect_evidence(guarantee, np.zeros(len(rows)), self.groups[rows], labels)
        if self.classes is not None:
            evidence = with_classes(evidence, self.classes)
        return [part.demand() for part in evidence.parts(guarantee)]


def check_feasible(method: MetaPS, division: Division, counted: Counted) -> None:
    """Raise InfeasibleGuarantee before anything is trained; numbers of rows alone decide.

    With shots, as many rows of each group remain whichever are drawn, but not of each class.
    """
    if method.on_infeasible != "raise" or (counted.shots and counted.classes is not None):
        return
    demands = counted.demands(method, division.calibration)
    if all(one.is_feasible() for one in demands):
        return
    message = shortage.explain_too_few_tasks(demands, is_interval=counted.is_interval)
    if division.training:
        message = Message("{} {}", message, _advise(method, division, counted))
    raise InfeasibleGuarantee(message)


def _advise(method: MetaPS, division: Division, counted: Counted) -> Message:
    """Return how many groups calibrate, and how many would be enough, if they are there."""
    used, spare = len(division.calibration), len(division.training) - 1  # one is left to train on
    drawn = division.calibration + division.training
    text = Message("Groups are the tasks here: {} of {} calibrate", used, used + spare + 1)

    def works(more: int, least: int) -> bool:
        demands = counted.demands(method, drawn[: used + more])
        return all(one.with_parameters(min_examples=least).is_feasible() for one in demands)

    now = least = method.min_examples
    if division.is_drawn and spare and not works(spare, now):
        found = shortage.find_min_examples(counted.demands(method, drawn[: used + spare]))
        least = max(now, found or 0)
    # With no more groups, another size is an option that is named already.
    if not division.is_drawn or not spare or works(0, least) or not works(spare, least):
        return Message("{}, and the others train.", text)
    enough = used + min_integer(lambda more: works(more, least), 0, spare)
    text = Message("{}, and {}", text, Parameter("calibration", enough))
    if least == now:
        return Message("{} would do.", text)
    rows = f"{least} rows{'' if counted.classes is None else ' of the class'}"
    larger = Parameter("min_examples", least)
    return Message("{} with {} would do: for groups with at least {}.", text, larger, rows)
