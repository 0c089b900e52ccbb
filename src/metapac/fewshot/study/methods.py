"""Methods under study: those of the paper, their neighbours, your own.

Scores are conformity scores, so that upper quantiles of other papers become lower ones here.
"""

from __future__ import annotations

import copyreg
import dis
import hashlib
import math
import sys
import types
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from metapac._common import Array, Floats
from metapac.binomial import allowed_errors
from metapac.errors import InvalidInput
from metapac.fewshot.meta_cp import Correction, MetaCP
from metapac.fewshot.study.draws import Draw, order_scores, ordered_evidence, select_ranks
from metapac.grouping import Grouped, group
from metapac.guarantee import Guarantee
from metapac.planning import min_sample_size, plan

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_CODE = ("co_code", "co_consts", "co_names", "co_varnames", "co_argcount", "co_kwonlyargcount")
_PARTS: dict[type, tuple[str, ...]] = {
    types.CodeType: (*_CODE, "co_flags"),  # without the lines and the file
    types.CellType: ("cell_contents",),
    types.FunctionType: ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__dict__"),
    property: ("fget", "fset", "fdel"),
}


def digest_code(function: Callable[..., Any]) -> str:
    """Return a checksum of a function's code and of what it uses, the same in every process."""
    return f"sha256:{_digest(function, {}).hex()[:16]}"


def _digest(value: Any, seen: dict[int, Any]) -> bytes:
    """Return a checksum of a value: code by its content, other values as pickle stores them."""
    if isinstance(value, _PLAIN):
        content = repr(value).encode()
    elif isinstance(value, set | frozenset):
        content = b"".join(sorted(_digest(each, seen.copy()) for each in value))
    elif id(value) in seen and type(value) is not tuple:
        content = b"seen %d" % list(seen).index(id(value))
    else:
        parts = _find_parts(value, is_rule=not seen)
        seen[id(value)] = value  # kept alive, so that its id stays unique
        content = b"".join(_digest(part, seen) for part in parts)
    return hashlib.sha256(type(value).__qualname__.encode() + b":" + content).digest()


def _find_parts(value: Any, is_rule: bool) -> Iterable[Any]:
    """Return what an object consists of; what belongs to an installed package has only a name."""
    if type(value) in (tuple, list, dict):
        return tuple(value.items() if isinstance(value, dict) else value)
    if isinstance(value, types.FunctionType | type | types.ModuleType) and not is_rule:
        home = getattr(value, "__module__", value.__name__)  # a module has none
        if _is_installed(home):
            return home, value.__name__
    if isinstance(value, types.ModuleType):
        return (Path(str(value.__file__)).read_bytes(),)
    if isinstance(value, type):  # of names like __doc__, only functions
        kinds, hidden = (types.FunctionType, staticmethod, classmethod), ("__", "_abc_impl")
        members = vars(value).items()
        kept = (m for m in members if isinstance(m[1], kinds) or not m[0].startswith(hidden))
        return value.__bases__, *kept
    if type(value) in _PARTS:
        parts = [getattr(value, name) for name in _PARTS[type(value)]]
        return [*parts, *_find_used(value)] if isinstance(value, types.FunctionType) else parts
    if hasattr(value, "__wrapped__"):  # such as a static method, or a function with a cache
        return (value.__wrapped__,)
    reducer: Any = copyreg.dispatch_table.get(type(value))
    reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
    if not isinstance(reduced, str):
        return [list(part) if isinstance(part, Iterator) else part for part in reduced]
    if is_rule or not _is_installed(value.__module__):
        raise TypeError(f"{reduced} has no Python code")
    return value.__module__, reduced


def _find_used(function: types.FunctionType) -> Iterator[Any]:
    """Yield the globals that a function reads, and what it imports when it runs."""
    codes, known = [function.__code__], function.__globals__
    for code in codes:  # grows while it is read
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    steps = [s for c in codes for s in dis.get_instructions(c) if s.opname != "EXTENDED_ARG"]
    for place, step in enumerate(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in known:
            yield step.argval, known[step.argval]
        elif step.opname == "IMPORT_NAME":
            level, names = steps[place - 2].argval, steps[place - 1].argval or ("__name__",)
            with suppress(ImportError):  # optional: its name is part of the code
                module = __import__(step.argval, known, None, names, level)
                mine = [] if _is_installed(module.__name__) else names
                yield module, [getattr(module, name) for name in mine]


def _is_installed(module: str | None) -> bool:
    """Return whether a module is metapac's, Python's or of an installed package."""
    top = (module or "__main__").partition(".")[0]
    if top in ("metapac", "__main__"):  # the file of __main__ may be that of a tool
        return top == "metapac"
    places = Path(getattr(sys.modules.get(top), "__file__", None) or "").parts
    return top in sys.stdlib_module_names or "site-packages" in places or "dist-packages" in places


SECOND_DELTA = 0.1  # of the paper's figure that compares two deltas


@dataclass(frozen=True, eq=False)
class Chosen:
    """Thresholds chosen for new tasks, and whether the data could support the guarantee.

    Parameters
    ----------
    thresholds : float or array_like, shape (tests,)
        One for all new tasks or one for each; ``-inf`` (keep every label) where it is infeasible.
    feasible : bool or array_like of bool, shape (tests,)
        Whether there were enough data for the guarantee.

    Examples
    --------
    >>> from metapac.fewshot import Chosen
    >>> Chosen(thresholds=0.4, feasible=True)
    Chosen(thresholds=0.4, feasible=True)
    """

    thresholds: Array
    feasible: Array


INFEASIBLE = Chosen(np.array(-math.inf), np.array(False))


# A named function, since a rule travels to other processes and a lambda cannot be pickled.
def _more_data(g: Guarantee) -> str:
    return "more tasks or examples"


RuleFunction = Callable[[Draw, Guarantee], Any]


@dataclass(frozen=True)
class Rule:
    """A way to choose thresholds, and what it requires in words.

    Parameters
    ----------
    choose : callable
        Takes a draw and a guarantee; returns what the rule of a `Method` does.
    requirement : callable, optional
        Takes a guarantee, returns how much data it needs, in words.
    needs_quantiles : bool, default False
        Whether it needs predicted quantiles; without them it is left out.
    version : str, optional
        Version of the code, as in `Method`; "1" for the rules of this library until they change.
    needs_labels : bool, default False
        Whether it needs labelled examples of new tasks; without them it is left out.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import paper_methods
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight")
    >>> paper_methods(guarantee)[4].rule.requirement(guarantee)
    '116 tasks of 29 examples'
    """

    choose: RuleFunction
    requirement: Callable[[Guarantee], str] = field(default_factory=lambda: _more_data)
    needs_quantiles: bool = False
    version: str | None = None
    needs_labels: bool = False


@dataclass(frozen=True, init=False)
class Method:
    """A rule with the guarantee it is run at, and the name it has in the rows.

    Parameters
    ----------
    name : str
        Name of the method.
    rule : callable or Rule
        How thresholds are chosen: ``rule(draw, guarantee)`` returns one for all new tasks (a
        float), an array with one for each, or `Chosen`.
    guarantee : Guarantee
        The guarantee to aim at.
    version : str, optional
        Version of the rule's code, to be changed whenever its results may change: a folder of
        ``run_study`` never mixes two. By default the rule's; without one, a checksum of the code.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import Method
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> pooled = Method("pooled", lambda draw, levels: np.quantile(draw.scores, 0.1), guarantee)
    """

    name: str
    rule: Rule
    guarantee: Guarantee
    version: str | None = None

    def __init__(
        self, name: str, rule: Rule | RuleFunction, guarantee: Guarantee, version: str | None = None
    ) -> None:
        if not isinstance(rule, Rule) and not callable(rule):
            expected = "a function rule(draw, guarantee) or a Rule"
            raise InvalidInput(f"rule must be {expected}, got {rule!r}.")
        rule = rule if isinstance(rule, Rule) else Rule(rule)
        vars(self).update(name=name, rule=rule, guarantee=guarantee, version=version)

    def choose(self, draw: Draw) -> Chosen:
        """Return the thresholds of this method on one draw.

        Parameters
        ----------
        draw : Draw

        Returns
        -------
        Chosen
            An array of thresholds, and whether the guarantee is feasible, for each new task.
        """
        made, count = self.rule.choose(draw, self.guarantee), len(draw.tests)
        chosen = made if isinstance(made, Chosen) else Chosen(made, np.array(True))
        cuts, feasible = _as_array(chosen.thresholds), _as_array(chosen.feasible)
        is_valid = all(np.shape(array) in ((), (count,)) for array in (cuts, feasible))
        is_valid &= cuts.dtype.kind in "iuf" and feasible.dtype.kind == "b"
        if not is_valid or np.isnan(cuts).any():
            rule = f"must return a threshold or one for each of {count} new tasks, or Chosen"
            raise InvalidInput(f"the rule of method {self.name!r} {rule}, not NaN; got {made!r}.")
        return Chosen(np.full(count, cuts, np.float64), np.full(count, feasible))

    def describe(self) -> dict[str, Any]:
        """Return name, rule, version and guarantee as JSON can hold them.

        Returns
        -------
        dict

        Raises
        ------
        InvalidInput
            If the method has no version and the code of its rule cannot be compared.
        """
        choose = self.rule.choose
        return {
            "name": self.name,
            "rule": getattr(choose, "__name__", type(choose).__name__).strip("_"),
            "version": self.version or self.rule.version or self._digest(),
            **self.guarantee.describe(),
        }

    def _digest(self) -> str:
        try:
            return digest_code(self.rule.choose)
        except Exception as error:  # whatever a value that the rule uses raises
            lack = f"the code of method {self.name!r} cannot be compared ({error})"
            raise InvalidInput(f'{lack}. Pass Method(..., version="1").') from error


def _as_array(value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError:  # rows of unequal length
        return np.array(None)


def paper_methods(guarantee: Guarantee, *, second_delta: float | None = None) -> tuple[Method, ...]:
    """Return the paper's four methods, our splits and an oracle.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee to aim at.
    second_delta : float, optional
        Another delta, at which Meta-CP and the even and tight splits are run too, as in the paper.

    Returns
    -------
    tuple of Method

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import paper_methods
    >>> methods = paper_methods(Guarantee(epsilon=0.1, alpha=0.1, delta=0.1))
    >>> [method.name for method in methods]
    ['PS', 'PS-Test', 'Meta-CP', 'Meta-PS even', 'Meta-PS tight', 'Meta-PS joint', 'oracle']
    """
    even, tight, joint = (replace(guarantee, split=split) for split in ("even", "tight", "joint"))
    methods = (
        Method("PS", PS, guarantee),
        Method("PS-Test", PS_TEST, guarantee),
        Method("Meta-CP", META_CP, guarantee),
        Method("Meta-PS even", META_PS, even),
        Method("Meta-PS tight", META_PS, tight),
        Method("Meta-PS joint", META_PS, joint),
        Method("oracle", ORACLE, guarantee),
    )
    again = () if second_delta in (None, guarantee.delta) else methods[2:5]  # Meta-CP, even, tight
    loose = (replace(m, guarantee=replace(m.guarantee, delta=second_delta)) for m in again)
    return (*methods, *loose)


def describe_need(guarantee: Guarantee, name: str, delta: float) -> str | None:
    """Return how much data one of the paper's methods needs, in words."""
    methods = paper_methods(replace(guarantee, delta=delta))
    needs = (m.rule.requirement(m.guarantee) for m in methods if m.name == name)
    return next(needs, None)


def _ps(draw: Draw, g: Guarantee) -> Chosen:
    """PS: all calibration scores pooled, as if they came from one task."""
    scores = draw.ordered.scores
    errors = allowed_errors(len(scores), g.miss_rate, g.failure_probability)
    if errors < 0:
        return INFEASIBLE
    return same_for_all(float(np.partition(scores, errors)[errors]) + 0.0)  # no negative zero


def _ps_test(draw: Draw, g: Guarantee) -> Chosen:
    """PS-Test: labelled examples of the new task itself."""
    known = [test.labelled_scores for test in draw.tests]
    errors = allowed_errors([*map(len, known)], g.miss_rate, g.failure_probability)
    cuts = [
        np.partition(scores, k)[k] + 0.0 if k >= 0 else -math.inf  # no negative zero
        for scores, k in zip(known, errors.tolist(), strict=True)
    ]
    return Chosen(np.array(cuts, float), errors >= 0)


def _meta_ps(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-PS: a threshold for each calibration task, then one for all new tasks."""
    (part,) = ordered_evidence(draw.ordered, g).parts(g)
    return same_for_all(part.second_step().threshold, feasible=part.demand().is_feasible())


def _meta_cp(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-CP: a predicted quantile for each task, plus an offset from the calibration tasks."""
    assert draw.quantiles is not None  # evaluate_draw leaves the method out without them
    levels = {"epsilon": g.miss_rate, "delta": g.failure_probability}
    method = MetaCP(**levels, over="examples", on_infeasible="trivial")
    method._calibrate_grouped(draw.ordered, draw.quantiles)
    correction = Correction(method.correction_, method.split_)
    feasible = correction.leaves_room(g.miss_rate, len(method.tasks_))
    cuts = [method.threshold(test.quantile) for test in draw.tests if test.quantile is not None]
    return Chosen(np.array(cuts), np.array(feasible))


def _oracle(draw: Draw, g: Guarantee) -> Chosen:
    """A lower bound for set size: the largest threshold that is valid on the test examples."""
    cuts = [test.largest_threshold(g.miss_rate) for test in draw.tests]
    return Chosen(np.array(cuts), np.array(True))


def same_for_all(cut: float, *, feasible: bool = True) -> Chosen:
    return Chosen(np.array(cut), np.array(feasible))


def _labels(g: Guarantee) -> str:
    return f"{min_sample_size(g.miss_rate, g.failure_probability)} labels"


def _tasks(g: Guarantee) -> str:
    levels: Any = {"epsilon": g.miss_rate, "alpha": g.alpha, "delta": g.delta}
    needed = plan(**levels, split=g.split, allow=["levels"])
    return f"{needed.tasks} tasks of {needed.examples_per_task} examples"


# Raise the version of a rule whenever its thresholds change: stored rows are then refused.
PS = Rule(_ps, _labels, version="1")
PS_TEST = Rule(_ps_test, _labels, version="1", needs_labels=True)
META_PS = Rule(_meta_ps, _tasks, version="1")
META_CP = Rule(_meta_cp, needs_quantiles=True, version="1")
ORACLE = Rule(_oracle, version="1")


_RANKS = 64  # ranks within a task that FedCP-QQ tries, spread evenly if a task has more examples
_NODES = 128  # of the quadrature
_TAIL = 1e-18  # probability that the threshold lies outside the range of the quadrature

PROMISES = {
    "FedCP-QQ": "one new example is covered with probability 1 - epsilon, if all tasks have one "
    "distribution (Humbert, Le Bars, Bellet and Arlot 2023)",
    "averaged thresholds": "nothing",
    "HCP": "one new example of a new task is covered with probability 1 - epsilon (Lee, Barber and "
    "Willett 2023)",
    "multi-environment": "the sample of a new task is covered to 1 - epsilon with probability "
    "1 - alpha (Duchi, Gupta, Jiang and Sur 2024)",
}


def neighbour_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return related methods at the same epsilon and alpha.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of Meta-PS; the guarantees of these methods are weaker, see `PROMISES`.

    Returns
    -------
    tuple of Method

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import SyntheticStudy, neighbour_methods, run_study
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> [method.name for method in neighbour_methods(guarantee)]
    ['FedCP-QQ', 'averaged thresholds', 'HCP', 'multi-environment']
    """
    rules = (FEDCP_QQ, AVERAGED, HCP, MULTI_ENVIRONMENT)
    return tuple(Method(name, rule, guarantee) for name, rule in zip(PROMISES, rules, strict=True))


def quantile_of_quantiles_coverage(examples: int, tasks: int, within: int, across: int) -> float:
    """Return the coverage of a quantile of quantiles, if all scores have one distribution."""
    # Each task reports the ``within``-th smallest of its nonconformity scores, on uniform scores
    # Beta(within, examples - within + 1) with distribution function G; the threshold is the
    # ``across``-th smallest report. The coverage is its mean, the integral over t of
    # P[Bin(tasks, G(t)) < across].
    reported = within, examples - within + 1
    smallest = special.betaincinv(across, tasks - across + 1, _TAIL)
    largest = 1 - special.betaincinv(tasks - across + 1, across, _TAIL)
    low, high = special.betaincinv(*reported, [smallest, largest])
    nodes, weights = special.roots_legendre(_NODES)
    t = low + (high - low) * (nodes + 1) / 2
    exceeds = special.betainc(tasks - across + 1, across, 1 - special.betainc(*reported, t))
    return float(low + (high - low) / 2 * (weights @ exceeds))


@lru_cache(maxsize=64)
def choose_ranks(examples: int, tasks: int, epsilon: float) -> tuple[int, int] | None:
    """Return the ranks of FedCP-QQ: those whose coverage exceeds 1 - epsilon by least."""
    found = []
    for within in np.unique(np.linspace(1, examples, _RANKS).round().astype(int)).tolist():
        coverage = partial(quantile_of_quantiles_coverage, examples, tasks, within)
        across = 1 + bisect_left(range(1, tasks + 1), 1 - epsilon, key=coverage)  # it rises
        if across <= tasks:
            found.append((coverage(across), within, across))
    return min(found)[1:] if found else None


def _fedcp_qq(draw: Draw, g: Guarantee) -> Chosen:
    """FedCP-QQ: a quantile of one quantile from each task; tasks are cut to the smallest."""
    ordered = draw.ordered
    examples, tasks = int(ordered.sizes.min()), len(ordered.sizes)
    ranks = choose_ranks(examples, tasks, g.miss_rate)
    if ranks is None:
        return INFEASIBLE
    within, across = ranks
    if examples < ordered.sizes.max():  # the first examples of each task, in their own order
        ordered = _cut_tasks(draw, examples)
    lowest = np.full((tasks, 1), examples - within)  # the same rank, counted from below
    reported = np.sort(select_ranks(ordered, lowest)[:, 0])
    return same_for_all(float(reported[tasks - across]))


def _cut_tasks(draw: Draw, examples: int) -> Grouped:
    """Return the first scores of each task, ascending."""
    grouped = group(draw.scores, draw.tasks)
    parts = np.split(grouped.scores, np.cumsum(grouped.sizes)[:-1])
    names = np.arange(len(parts)).repeat(examples)
    return order_scores(np.concatenate([part[:examples] for part in parts]), names)


def _averaged(draw: Draw, g: Guarantee) -> Chosen:
    """The mean over tasks of their split conformal thresholds."""
    cuts = _conformal_thresholds(draw, g.miss_rate)
    return same_for_all(float(cuts.mean()), feasible=bool(np.isfinite(cuts).all()))


def _hcp(draw: Draw, g: Guarantee) -> Chosen:
    """HCP: a weighted quantile of all scores, with equal weight for each task and the new one."""
    scores, sizes = draw.ordered.scores, draw.ordered.sizes
    allowed = g.miss_rate * (len(sizes) + 1) - 1  # the new task may be missed altogether
    if allowed < 0:
        return INFEASIBLE
    if (sizes == sizes[0]).all():  # all scores weigh the same
        rank = _floor(allowed * sizes[0])
        return same_for_all(float(np.partition(scores, rank)[rank]))
    return same_for_all(weighted_threshold(scores, (1 / sizes).repeat(sizes), allowed))


def weighted_threshold(scores: Array, weights: Floats, allowed: float) -> float:
    """Return the largest score below which the scores weigh at most ``allowed``."""
    order = scores.argsort(kind="stable")
    ranked, below = scores[order], np.concatenate([[0.0], weights[order].cumsum()[:-1]])
    first = np.searchsorted(ranked, ranked)  # equal scores have the weight below the first of them
    return float(ranked[below[first] <= allowed][-1])


def _multi_environment(draw: Draw, g: Guarantee) -> Chosen:
    """Multi-environment split conformal: a threshold of each task, then a quantile across tasks."""
    cut = conformal_threshold(_conformal_thresholds(draw, g.miss_rate), g.alpha)
    return same_for_all(cut, feasible=cut > -math.inf)


def _conformal_thresholds(draw: Draw, epsilon: float) -> Floats:
    ranks = [[_floor(epsilon * (n + 1)) - 1] for n in draw.ordered.sizes.tolist()]
    return select_ranks(draw.ordered, np.array(ranks))[:, 0]


def conformal_threshold(scores: Array, epsilon: float) -> float:
    """Return the split conformal threshold: a new score is below it with probability <= epsilon."""
    rank = _floor(epsilon * (len(scores) + 1))
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank else -math.inf


def _floor(product: float) -> int:
    return math.floor(product * (1 + 2.0**-50))


FEDCP_QQ = Rule(_fedcp_qq, version="1")
AVERAGED = Rule(_averaged, version="1")
HCP = Rule(_hcp, version="1")
MULTI_ENVIRONMENT = Rule(_multi_environment, version="1")
