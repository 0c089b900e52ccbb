"""Draws and methods: exact counts, slow references, published values, and rules of your own."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import Guarantee, InvalidInput, Scored, fewshot
from metapac.data_checks import CHECKS
from metapac.evidence import first_step
from metapac.fewshot.study import draws
from metapac.fewshot.study import methods as rules
from metapac.fewshot.study.methods import META_PS, PS, PS_TEST, quantile_of_quantiles_coverage
from metapac.fewshot.study.rows import evaluate_draw
from metapac.fewshot.synthetic import NormalFamily
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level, joint_ranks
from tests.helpers import oracles
from tests.helpers.studies import GUARANTEE, SmallStudy, scored_task

PAPERS = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
NAMES = ("PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")
AGAIN = ("Meta-CP", "Meta-PS even", "Meta-PS tight")

coarse = st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 0.5, 0.75, 1.0])


@st.composite
def small_tasks(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    n, classes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    table = [[draw(coarse) for _ in range(classes)] for _ in range(n)]
    return table, [draw(st.integers(0, classes - 1)) for _ in range(n)]


@given(
    small_tasks(),
    st.lists(coarse | st.floats(-2, 2), min_size=1, max_size=5),
    st.sampled_from([0.05, 0.1, 1 / 3, 0.5, 0.6, 2 / 3, 0.9]),
)
def test_error_and_size_are_counts_and_no_larger_threshold_would_do(
    task: tuple[list[list[float]], list[int]], cuts: list[float], epsilon: float
) -> None:
    table, labels = task
    result = scored_task(table, labels)
    for cut, error, size in zip(cuts, result.error(cuts), result.size(cuts), strict=True):
        misses = sum(row[label] < cut for row, label in zip(table, labels, strict=True))
        assert error == misses / len(table)
        assert size == sum(score >= cut for row in table for score in row) / len(table)
    best = result.largest_threshold(epsilon)
    assert result.error([best])[0] <= epsilon
    above = result.true_scores[result.true_scores > best]
    for larger in [*above, best + 0.01 if best > -np.inf else -2.0]:
        assert result.error([larger])[0] > epsilon


def test_a_threshold_is_compared_in_the_precision_of_the_task() -> None:
    task = scored_task(np.array([[0.7, 0.1]], dtype=np.float32), [0])
    assert (task.error([0.7])[0], task.size([0.7])[0]) == (0, 1)
    assert task.error([np.nextafter(np.float32(0.7), 1)])[0] == 1
    half = scored_task(np.array([[0.5]], dtype=np.float16), [0])
    assert half.error([1e9, -1e9]).tolist() == [1, 0]


def test_inconsistent_draws_are_refused() -> None:
    good: dict[str, Any] = {"labelled_scores": [0.5], "true_scores": [0.5, 0.5]}
    good |= {"scores": [[0.5, 0.1], [0.2, 0.5]]}
    assert not len(draws.ScoredTask(**good | {"labelled_scores": []}).labelled_scores)
    bad: list[dict[str, Any]] = [{"labelled_scores": x} for x in ([np.nan], [[0.5]])]
    bad += [{"true_scores": x} for x in ([0.1, 0.9], [])]
    bad += [{"scores": x} for x in ([[0.5, 0.1]], [0.5, 0.5])]
    for change in (*bad, {"quantile": np.inf}):
        with pytest.raises(InvalidInput, match=next(iter(change))):
            draws.ScoredTask(**good | change)
    task = scored_task([[0.5]], [0])
    with pytest.raises(InvalidInput, match="tests"):
        draws.Draw(np.ones(2), np.arange(2), [])
    with pytest.raises(InvalidInput, match="quantiles .* test task 1"):
        draws.Draw(np.ones(2), np.arange(2), [replace(task, quantile=0.5), task], np.ones(2))


examples = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0])),
    min_size=1,
    max_size=60,
)


@given(examples, st.sampled_from(["joint", "tight"]), st.sampled_from([np.float32, np.float64]))
def test_scores_sorted_once_give_the_evidence(
    rows: list[tuple[int, float]], split: str, kind: Any
) -> None:
    guarantee = replace(GUARANTEE, split=split)
    tasks = np.array([task for task, _ in rows])
    scores = np.array([value for _, value in rows], kind)
    before, ordered = scores.copy(), draws.order_scores(scores, tasks)
    actual = draws.ordered_evidence(ordered, guarantee)
    expected = first_step(Scored(scores, tasks), guarantee, frozenset(CHECKS))
    for name in ("names", "sizes", "thresholds", "lowest", "highest"):
        one, other = getattr(actual, name), getattr(expected, name)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype, name
    assert actual.precision == expected.precision == kind
    parts = [sorted(scores[tasks == name].tolist()) for name in ordered.names]
    assert ordered.scores.tolist() == [value for part in parts for value in part]
    ranks = np.stack([ordered.sizes - 1, 0 * ordered.sizes - 1], 1)
    assert draws.select_ranks(ordered, ranks).tolist() == [[part[-1], -np.inf] for part in parts]
    np.testing.assert_array_equal(scores, before)


def test_scores_that_cannot_be_studied_are_refused() -> None:
    with pytest.raises(InvalidInput, match="scores holds 1 NaN .*in task 'b'"):
        draws.order_scores(np.array([0.1, np.nan, 0.2]), np.array(["a", "b", "b"]))
    ordered = draws.order_scores(np.ones(3), np.zeros(3, int))
    with pytest.raises(InvalidInput, match="per_class"):
        draws.ordered_evidence(ordered, replace(GUARANTEE, per_class=True))


def levels(name: str, g: Guarantee, tasks: int) -> tuple[list[float], list[int]]:
    """The levels within tasks of the paper's split and ours, and the ranks across tasks."""
    delta = g.failure_probability
    if name == "Meta-PS even":
        return [g.alpha / 2], [oracles.allowed_errors(tasks, g.alpha / 2, delta)]
    if name == "Meta-PS tight":
        across = g.alpha * (1 - g.alpha / 2)
        return [g.alpha / 2], [oracles.allowed_errors(tasks, across, delta)]
    shares = tuple(Level(x, g.alpha * (1 - x)) for x in JOINT_LEVELS)
    return list(JOINT_LEVELS), list(joint_ranks(tasks, shares, delta))


def expected(name: str, g: Guarantee, draw: draws.Draw) -> list[float]:
    """The threshold on each new task, by the slow references."""
    scores, tasks, tests = draw.scores.tolist(), draw.tasks.tolist(), draw.tests
    epsilon, delta = g.miss_rate, g.failure_probability
    if name == "PS":
        return [oracles.threshold(scores, epsilon, delta)] * len(tests)
    if name == "PS-Test":
        return [oracles.threshold(test.labelled_scores.tolist(), epsilon, delta) for test in tests]
    if name == "oracle":
        cuts = [sorted(test.true_scores.tolist()) for test in tests]
        return [
            max(cut for cut in row if sum(x < cut for x in row) <= epsilon * len(row))
            for row in cuts
        ]
    if name == "Meta-CP":
        assert draw.quantiles is not None
        guesses = dict(enumerate(draw.quantiles.tolist()))
        method = fewshot.MetaCP(epsilon=epsilon, delta=delta, over="examples")
        method.calibrate(scores, tasks, guesses)
        return [method.threshold(test.quantile or 0.0) for test in tests]
    within, ranks = levels(name, g, len(set(tasks)))
    return [oracles.meta_ps(scores, tasks, g.miss_rate, within, ranks)] * len(tests)


@pytest.mark.parametrize("seed", range(3))
def test_every_method_is_what_its_name_says(seed: int) -> None:
    draw = SmallStudy().draw(np.random.default_rng(seed))
    rows = evaluate_draw(7, draw, fewshot.paper_methods(GUARANTEE, second_delta=0.1))
    assert rows.methods() == [(n, GUARANTEE.delta) for n in NAMES] + [(n, 0.1) for n in AGAIN]
    for name, delta in rows.methods():
        chosen = rows.select(name, delta)
        cuts = expected(name, replace(GUARANTEE, delta=delta), draw)
        assert chosen.threshold.tolist() == cuts, name
        assert np.isfinite(cuts).all()
        assert chosen.feasible.all()
        assert (chosen.draw.tolist(), chosen.task.tolist()) == ([7] * 4, [0, 1, 2, 3])
        for i, (test, cut) in enumerate(zip(draw.tests, cuts, strict=True)):
            assert chosen.error[i] == test.error([cut])[0]
            assert chosen.size[i] == test.size([cut])[0]


def test_methods_that_lack_something_are_left_out() -> None:
    for methods in (
        fewshot.paper_methods(replace(GUARANTEE, delta=0.1), second_delta=0.1),  # not run twice
        fewshot.paper_methods(GUARANTEE),
    ):
        assert [method.name for method in methods] == list(NAMES)
    methods = fewshot.paper_methods(GUARANTEE, second_delta=0.1)
    for study, missing in (
        (SmallStudy(quantiles=False), "Meta-CP"),
        (SmallStudy(labelled=0), "PS-Test"),
        (fewshot.SyntheticStudy(tasks=40, examples=30, tests=2, labelled=0), "PS-Test"),
    ):
        rows = evaluate_draw(0, study.draw(np.random.default_rng(0)), methods)
        names = [name for name, _ in rows.methods()]
        kept = [n for n in (*NAMES, *AGAIN) if n != missing]
        assert names == kept or (missing == "PS-Test" and "Meta-CP" not in names)
    some = make_draw(1, 110, (110, 0))  # a task without labelled examples keeps every label
    assert evaluate_draw(0, some, [methods[1]]).feasible.tolist() == [True, False]
    bare = SmallStudy(quantiles=False).draw(np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="methods"):
        evaluate_draw(0, bare, [methods[2]])


def make_draw(tasks: int, examples: int, labelled: tuple[int, ...] = (1,)) -> draws.Draw:
    tests = [scored_task(np.eye(5), np.arange(5), labelled_scores=np.ones(n)) for n in labelled]
    names = np.repeat(np.arange(tasks), examples)
    return draws.Draw(np.linspace(0, 1, len(names)), names, tests)


def test_too_few_data_keep_every_label() -> None:
    tight, even = (replace(PAPERS, split=split) for split in ("tight", "even"))
    cases: list[tuple[draws.Draw, fewshot.Rule, Guarantee, list[bool]]] = [
        (make_draw(1, 109), PS, PAPERS, [False]),
        (make_draw(1, 110), PS, PAPERS, [True]),
        (make_draw(1, 1, (100, 109, 110)), PS_TEST, PAPERS, [False, False, True]),
        (make_draw(110, 44), META_PS, PAPERS, [False]),
        (make_draw(111, 44), META_PS, PAPERS, [True]),
        (make_draw(111, 43), META_PS, PAPERS, [False]),
        (make_draw(115, 30), META_PS, tight, [False]),
        (make_draw(116, 30), META_PS, tight, [True]),
        (make_draw(116, 28), META_PS, tight, [False]),
        (make_draw(224, 30), META_PS, even, [False]),
        (make_draw(225, 30), META_PS, even, [True]),
    ]
    for draw, rule, guarantee, feasible in cases:
        rows = evaluate_draw(0, draw, [fewshot.Method("any", rule, guarantee)])
        assert rows.feasible.tolist() == feasible
        assert np.isfinite(rows.threshold).tolist() == feasible
        assert (rows.size[~rows.feasible] == 5).all()
        assert (rows.error[~rows.feasible] == 0).all()
    few = SmallStudy(tasks=2).draw(np.random.default_rng(0))
    rows = evaluate_draw(0, few, fewshot.paper_methods(PAPERS)).select("Meta-CP")
    assert (rows.threshold == -np.inf).all()
    assert not rows.feasible.any()


def test_a_threshold_of_zero_has_no_sign() -> None:
    zero = np.full(220, -0.0)
    test = scored_task(np.eye(5), np.arange(5), labelled_scores=zero)
    for rule in (PS, PS_TEST):
        draw = draws.Draw(zero, np.arange(220) // 110, [test])
        (cut,) = fewshot.Method("any", rule, PAPERS).choose(draw).thresholds
        assert (cut, math.copysign(1, cut)) == (0, 1)


NEIGHBOURS = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1)


def threshold(name: str, parts: list[Any], g: Guarantee = NEIGHBOURS) -> tuple[float, bool]:
    """What a neighbouring method chooses for tasks with these scores."""
    tasks = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    scores = np.concatenate([np.asarray(part, float) for part in parts])
    (method,) = (each for each in fewshot.neighbour_methods(g) if each.name == name)
    chosen = method.choose(draws.Draw(scores, tasks, [scored_task([[0.5, 0.5]], [0])] * 2))
    (cut,) = {*chosen.thresholds.tolist()}
    return cut, bool(chosen.feasible[0])


def exact_coverage(examples: int, tasks: int, within: int, across: int) -> Fraction:
    """The integral over t of P[Bin(tasks, G(t)) < across], term by term.

    G(t) is the probability that at least ``within`` of ``examples`` uniform scores are at most t.
    Counts of the tasks' examples that are at most t are enumerated; of all examples together,
    j are at most t with density t^j (1 - t)^(all - j), whose integral is a beta function.
    """
    everything = examples * tasks
    ways = {(0, 0): 1}  # (tasks that report at most t, examples at most t) -> number of ways
    for _ in range(tasks):
        grown: dict[tuple[int, int], int] = {}
        for (reports, count), number in ways.items():
            for k in range(examples + 1):
                key = reports + (k >= within), count + k
                grown[key] = grown.get(key, 0) + number * math.comb(examples, k)
        ways = grown
    betas = {j: Fraction(1, (everything + 1) * math.comb(everything, j)) for _, j in ways}
    few = {key: number for key, number in ways.items() if key[0] < across}
    return sum((number * betas[count] for (_, count), number in few.items()), Fraction(0))


@given(st.data())
def test_coverage_is_the_exact_integral(data: st.DataObject) -> None:
    examples, tasks = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5))
    within, across = data.draw(st.integers(1, examples)), data.draw(st.integers(1, tasks))
    exact = float(exact_coverage(examples, tasks, within, across))
    actual = quantile_of_quantiles_coverage(examples, tasks, within, across)
    assert actual == pytest.approx(exact, abs=1e-12)


@given(st.integers(1, 8), st.integers(1, 6), st.floats(0.02, 0.6))
def test_ranks_are_the_best_of_all_pairs(examples: int, tasks: int, epsilon: float) -> None:
    pairs = [(a, b) for a in range(1, examples + 1) for b in range(1, tasks + 1)]
    found = [quantile_of_quantiles_coverage(examples, tasks, *pair) for pair in pairs]
    enough = [coverage for coverage in found if coverage >= 1 - epsilon]
    chosen = rules.choose_ranks(examples, tasks, epsilon)
    assert (chosen is None) == (not enough)
    if chosen is not None:
        assert quantile_of_quantiles_coverage(examples, tasks, *chosen) == min(enough)


def test_neighbours_take_the_ranks_of_their_papers() -> None:
    # Ten scores of nonconformity: the largest is minus the smallest score; third of five tasks.
    parts = [np.arange(10) + 100 * task for task in (4, 2, 0, 1, 3)]
    assert threshold("FedCP-QQ", parts) == (200.0, True)
    longer = [*parts[:4], np.concatenate([parts[4], [-5.0]])]  # cut to the first ten
    assert threshold("FedCP-QQ", longer) == (200.0, True)
    assert threshold("FedCP-QQ", [[1.0], [2.0]]) == (-math.inf, False)
    parts = [np.arange(19) + 100 * task for task in range(9)]  # second smallest of each
    assert threshold("multi-environment", parts) == (101.0, True)  # second of nine
    assert threshold("multi-environment", parts[:3]) == (-math.inf, False)
    assert threshold("averaged thresholds", parts) == (401.0, True)


@given(st.integers(1, 40), st.floats(0.01, 0.99) | st.just(0.1))
def test_a_conformal_threshold_has_its_exact_coverage(n: int, epsilon: float) -> None:
    cut = rules.conformal_threshold(np.arange(1, n + 1), epsilon)
    # The new score falls into each of the n + 1 gaps with equal probability.
    missed = 0 if cut == -math.inf else int(cut)
    assert Fraction(missed, n + 1) <= Fraction(epsilon) * (1 + Fraction(1, 2**49))
    assert Fraction(missed + 1, n + 1) > Fraction(epsilon) or missed == n
    assert rules.conformal_threshold(np.arange(1.0, 30.0), 0.1) == 3.0  # not lost to rounding


@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=12),
    st.floats(0.05, 0.6),
)
def test_hcp_equals_its_definition(parts: list[list[int]], epsilon: float) -> None:
    def largest(limit: Fraction) -> float:
        """The largest score below which at most this mass lies; the new group counts as missed."""
        scores = sorted({score for part in parts for score in part})
        masses = [
            (1 + sum(Fraction(sum(s < cut for s in part), len(part)) for part in parts))
            / (len(parts) + 1)
            for cut in scores
        ]
        kept = [cut for cut, mass in zip(scores, masses, strict=True) if mass <= limit]
        return float(max(kept, default=-math.inf))

    found, feasible = threshold("HCP", parts, replace(NEIGHBOURS, epsilon=epsilon))
    tie = Fraction(1, 10**12)  # where rounding decides
    assert largest(Fraction(epsilon) - tie) <= found <= largest(Fraction(epsilon) + tie)
    assert feasible == (found > -math.inf)


def test_hcp_covers_a_new_example_of_a_new_task_exactly() -> None:
    # Four exchangeable tasks in every order; each in turn is the new one.
    tasks = [[0.0, 1.0], [2.0], [3.0, 4.0, 5.0], [-1.0, 6.0]]
    missed = []
    for order in permutations(tasks):
        cut, _ = threshold("HCP", list(order[:-1]), replace(NEIGHBOURS, epsilon=0.5))
        missed.append(np.mean([score < cut for score in order[-1]]))
    assert np.mean(missed) <= 0.5


@given(st.floats(0.001, 0.999), st.floats(-10, 10))
def test_the_largest_threshold_of_a_known_task(epsilon: float, signal: float) -> None:
    task = draws.KnownTask(NormalFamily(), signal, np.ones(1))
    best = task.largest_threshold(epsilon)
    assert task.error([best])[0] <= epsilon < task.error([best + 1e-12])[0]


def returning(made: Any) -> Callable[[draws.Draw, Guarantee], Any]:
    return lambda draw, g: made


def test_a_rule_returns_one_threshold_or_one_for_each_task() -> None:
    each = np.array([0.1, 0.2, 0.3, -np.inf])
    for made, cuts, feasible in (
        (np.float32(0.5), [0.5] * 4, True),
        (1, [1.0] * 4, True),
        (each.tolist(), each.tolist(), True),
        (fewshot.Chosen(each, np.array([True, True, True, False])), each.tolist(), False),
        (fewshot.Chosen(np.array(-np.inf), np.array(False)), [-np.inf] * 4, False),
    ):
        method = fewshot.Method("mine", returning(made), GUARANTEE)
        rows = fewshot.run_study(SmallStudy(), guarantee=GUARANTEE, methods=[method], draws=1)
        assert rows.threshold.tolist() == cuts
        assert rows.threshold.dtype == np.float64
        assert rows.feasible.all() == feasible


def test_a_rule_that_returns_something_else_is_told_what_to_return() -> None:
    yes = np.array(True)
    wrong: list[Any] = [None, "0.5", object(), [0.1] * 3 + [np.nan], [[0.1] * 4], [0.1, [0.2]], 1j]
    for made in (*wrong, fewshot.Chosen(np.ones(3), yes), fewshot.Chosen(np.ones(4), np.ones(4))):
        method = fewshot.Method("mine", returning(made), GUARANTEE)
        with pytest.raises(InvalidInput, match="'mine' must return a threshold .* of 4 new tasks"):
            fewshot.run_study(SmallStudy(), guarantee=GUARANTEE, methods=[method], draws=1)
    bare: Any = 0.5
    with pytest.raises(InvalidInput, match=r"rule must be a function rule\(draw, guarantee\)"):
        fewshot.Method("mine", bare, GUARANTEE)


# Each program defines a rule; the second text, in place of the first, must change its checksum.
PROGRAMS = {
    "name": ("def rule(draw, g):\n    return draw.low", "low", "high"),
    "keyword": ("def rule(draw, g, *, cut=0.1):\n    return cut", "0.1", "5.0"),
    "set": ("def rule(draw, g):\n    return draw in {'a', 'b', 'c'}", "'c'", "'d'"),
    "global": ("Z = 1.6\ndef rule(draw, g):\n    return Z", "1.6", "2.0"),
    "used": ("A = B = 1; C = 2\ndef rule(draw, g):\n    return A", "return A", "return C"),
    "helper": (
        "def f(x):\n    return x and f(x - 1)\ndef rule(draw, g):\n    return f(g)", "- 1", "- 2"
    ),
    "closure": (
        "def make(cut):\n    return lambda draw, g: cut\nrule = make(0.1)", "make(0.1)", "make(5.0)"
    ),
    "partial": ("rule = functools.partial(lambda cut, draw, g: cut, 0.1)", "0.1", "5.0"),
    "method": (
        "class Rule:\n    @staticmethod\n    def f(x):\n        return 1\n"
        "    def choose(self, draw, g):\n        return self.f(g)\nrule = Rule().choose",
        "1", "2",
    ),
    "property": (
        "@dataclass(frozen=True)\nclass Rule:\n    k: int = 3\n    @property\n"
        "    def cut(self):\n        return 1\n"
        "    def __call__(self, draw, g):\n        return self.cut\nrule = Rule()",
        "return 1", "return 2",
    ),
    "base": (
        "class Base:\n    low = 1\nclass Rule(Base):\n    def __call__(self, draw, g):\n"
        "        return self.low\nrule = Rule()",
        "low = 1", "low = 2",
    ),
    "generator": (
        "rng = np.random.default_rng(1)\ndef rule(draw, g):\n    return rng", "(1)", "(2)"
    ),
}  # fmt: skip
IMPORTS = "import functools\nfrom dataclasses import dataclass\nimport numpy as np\n"


def digest(program: str, file: str = "<one>") -> str:
    names: dict[str, Any] = {"__name__": "__main__", "draw": object(), "low": object()}
    exec(compile(IMPORTS + program, file, "exec"), names)
    return rules.digest_code(names["rule"])


def test_code_is_the_same_until_it_changes_and_in_another_process() -> None:
    for name, (program, old, new) in PROGRAMS.items():
        first = digest(program)
        moved = program.replace(":\n ", ": # a comment\n\n ")
        assert digest("\n" + moved, "<other>") == first, name
        assert digest(program.replace(old, new)) != first, name
    script = "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
    script += "from tests.study.test_methods import PROGRAMS, digest\n"
    script += "print(json.dumps([digest(program) for program, *_ in PROGRAMS.values()]))"
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(sys.path)],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [digest(program) for program, *_ in PROGRAMS.values()]


def test_own_modules_are_part_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").touch()
    (tmp_path / "own" / "other.py").write_text("from own.cuts import cut\ndef f(): return cut()")
    run = "__package__ = 'own'\ndef rule(draw, g):\n    import json, no_such\n    "
    programs = ["import own.cuts as c\ndef rule(draw, g):\n    return c.cut()"]
    for line in (
        *("from own.cuts import cut", "from own import cuts", "import own.cuts as c"),
        *("from .cuts import cut", "from . import cuts", "from own.other import f"),
    ):
        programs.append(run + line)
    for program in programs:
        found = []
        for cut in ("0.1", "5.0", "5.0"):
            for name in [name for name in sys.modules if name.partition(".")[0] == "own"]:
                monkeypatch.delitem(sys.modules, name)
            (tmp_path / "own" / "cuts.py").write_text(f"def cut():\n    return {cut}\n")
            importlib.invalidate_caches()
            found.append(digest(program))
        assert found[0] != found[1] == found[2], program


def test_code_that_cannot_be_compared_is_refused() -> None:
    for program in (
        "rule = len",
        "import threading\nlock = threading.Lock()\ndef rule(draw, g):\n    return lock",
        "def make():\n    rows = (i for i in 'ab')\n    return lambda draw, g: rows\nrule = make()",
    ):
        with pytest.raises(TypeError, match="has no Python code|cannot pickle"):
            digest(program)
