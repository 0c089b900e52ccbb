"""Monitors: what counts, what an alarm means, what is said, and the state file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import metapac as mp
from metapac.betting import Bets, Watch, exceeds, reaches
from metapac.monitoring import Counted, _check_fair, select_new
from metapac.plots import draw_monitor
from metapac.verdict import judge
from tests.helpers import oracles
from tests.helpers.refusals import assert_refused

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}


def draw(rng: Any, names: list[Any], examples: int = 100, *, power: float = 1.0) -> tuple[Any, Any]:
    """Return scores and tasks; a larger power means lower scores, so that more are missed."""
    return rng.random(len(names) * examples) ** power, np.repeat(names, examples)


def names(word: str, count: int) -> list[str]:
    """Return as many names of tasks, which begin alike."""
    return [f"{word} {i}" for i in range(count)]


@pytest.fixture
def rng() -> Any:
    """A new stream of numbers for each test."""
    return np.random.default_rng(1)


@pytest.fixture(scope="session")
def promise() -> mp.MetaPS:
    scores, tasks = draw(np.random.default_rng(0), names("old", 40))
    about = mp.Context(unit="clinic", example="patient", trained_on=["trained"], pilot=["pilot"])
    return mp.MetaPS(**LEVELS).calibrate(scores, tasks, context=about)


@pytest.fixture(scope="session")
def by_class() -> mp.MetaPS:
    scores, tasks = draw(np.random.default_rng(0), names("old", 40), 200)
    labels = np.tile(["no", "yes"], len(scores) // 2)
    levels = LEVELS | {"epsilon": {"no": 0.1, "yes": 0.2}}
    return mp.MetaPS(**levels, per_class=True).calibrate(scores, tasks, labels)


def test_the_checksum_is_that_of_the_guarantee(promise: mp.MetaPS, tmp_path: Path) -> None:
    checksum = mp.Monitor(promise).terms.checksum
    promise.save(tmp_path / "promise.json")
    assert mp.Monitor(mp.load(tmp_path / "promise.json"), min_examples=9).terms.checksum == checksum
    scores, tasks = draw(np.random.default_rng(0), names("old", 40))
    words = mp.MetaPS(**LEVELS).calibrate(scores, tasks, context=mp.Context(unit="ward", model="b"))
    assert mp.Monitor(words).terms.checksum == checksum
    others = [
        mp.MetaPS(**LEVELS | {"alpha": 0.25}).calibrate(scores, tasks),
        mp.MetaPS(**LEVELS).calibrate(scores - 0.1, tasks),
        mp.MetaPS(**LEVELS).calibrate(scores, np.char.add(tasks, "!")),
    ]
    found = {mp.Monitor(other).terms.checksum for other in others}
    assert len(found | {checksum}) == 4


GOOD, BAD = 1.0, 2.0  # powers of scores: about 5% and 22% are missed


def test_good_tasks_raise_no_alarm_and_very_good_ones_confirm(promise: mp.MetaPS, rng: Any) -> None:
    monitor = mp.Monitor(promise)
    assert (monitor.status, monitor.wealth, monitor.interval) == ("cannot tell yet", 1.0, (0, 1))
    added = monitor.add(*draw(rng, names("new", 30), power=GOOD))
    assert (added.steps, added.known, added.overlap, added.left_out) == (monitor.course, [], (), 0)
    assert monitor.alarm is None
    assert monitor.wealth == monitor.course[29].wealth < 1
    statuses = set()
    for name in names("better", 60):
        monitor.add(*draw(rng, [name], power=0.5))
        assert monitor.status == ("holds" if monitor.interval[1] <= 0.2 else "cannot tell yet")
        statuses.add(monitor.status)
    assert statuses == {"holds", "cannot tell yet"}


def test_bad_tasks_raise_an_alarm_that_stays(promise: mp.MetaPS, rng: Any) -> None:
    for false_alarm in (0.01, 0.001):
        monitor = mp.Monitor(promise, false_alarm=false_alarm)
        monitor.add(*draw(rng, names("bad", 20), power=BAD))
        alarm = next(step for step in monitor.course if step.wealth >= 1 / false_alarm)
        assert monitor.alarm == alarm
        monitor.add(*draw(rng, names("good", 90), power=GOOD))
        assert monitor.wealth < 1 / false_alarm
        assert monitor.alarm == alarm
        assert monitor.status == "violated"
        assert monitor.interval[0] >= 0.2


def test_amber_comes_sooner_and_starts_again(promise: Any, rng: Any, tmp_path: Path) -> None:
    monitor = mp.Monitor(promise, false_alarm=1e-9)  # so that there is no alarm
    assert (monitor.recent, monitor.amber, monitor.ambers) == (0, None, [])
    monitor.add(*draw(rng, names("good", 60), power=GOOD), batch="January")
    assert (monitor.amber, monitor.sentence()[:3]) == (None, "No ")
    monitor.add(*draw(rng, names("bad", 15), power=BAD), batch="February")
    first, *later = monitor.ambers
    assert len(later) > 0
    assert monitor.course.index(first) < 70
    # It begins at nothing after each light: one task adds little more than one bet's gain.
    after = monitor.course[monitor.course.index(first) + 1]
    assert first.recent >= 200 > 20 > after.recent
    assert monitor.amber == monitor.ambers[-1]
    assert monitor.alarm is None
    assert monitor.sentence().startswith("Amber. ")
    assert "It was reached" in monitor.sentence()
    facts = monitor.to_dict()
    assert (facts["amber"]["task"], facts["ambers"]) == (monitor.ambers[-1].task, 1 + len(later))
    monitor.save(tmp_path / "m.json")
    again = mp.Monitor.load(tmp_path / "m.json")
    assert (again.course, again.terms) == (monitor.course, monitor.terms)
    assert again.batches == ["January", "February"]
    assert again.to_frame().columns.tolist() == [*monitor.course[0]._fields]
    with pytest.raises(mp.InvalidInput, match="promise must be passed"):
        again.add(*draw(rng, ["c"]))
    same = (monitor.ambers, monitor.recent, str(monitor))
    assert (again.ambers, again.recent, str(again)) == same
    monitor.add(*draw(rng, names("well", 10), power=GOOD), batch="March")
    assert monitor.amber is None  # the latest batch is good
    assert len(monitor.ambers) == 1 + len(later)
    slower = mp.Monitor(promise, run_length=10**6)
    slower.add(*draw(rng, names("bad", 9), power=BAD))
    assert slower.ambers == []


def test_restarts_add_up() -> None:
    scores, tasks = draw(np.random.default_rng(0), names("old", 40))
    promise, other = (mp.MetaPS(**LEVELS).calibrate(scores, tasks) for _ in range(2))
    rng, monitors = np.random.default_rng(1), list[mp.Monitor]()
    for month, false_alarm in enumerate((0.01, 0.02, 0.03)):
        mp.Monitor(promise)  # one that counts nothing is no bet
        monitors.append(mp.Monitor(promise, false_alarm=false_alarm))
        for part in "ab":
            monitors[-1].add(*draw(rng, [f"{month} {part}"]))
    found = [(m.terms.restarts, m.terms.any_false_alarm) for m in monitors]
    assert found == [(0, 0.01), (1, 0.03), (2, 0.06)]
    assert "Restarted" not in monitors[0].sentence()
    assert "Restarted 2 times" in monitors[2].sentence()
    assert "at most 6% instead of 3%" in monitors[2].sentence()
    alone = mp.Monitor(other)
    alone.add(*draw(rng, ["x"]))
    assert alone.terms.restarts == 0
    promise.calibrate(scores - 0.1, tasks)  # another guarantee
    fresh = mp.Monitor(promise)
    fresh.add(*draw(rng, ["y"]))
    assert fresh.terms.restarts == 0


def test_bets_that_would_not_be_fair_are_refused() -> None:
    scores, tasks = draw(np.random.default_rng(0), names("old", 40))
    average = mp.MetaPS(epsilon=0.2, alpha=0.2, delta=None).calibrate(scores, tasks)
    assert_refused("promise delta=None expectation evaluate", mp.Monitor, average)
    listed: Any = SimpleNamespace(delta=0.1, new_tasks=20)
    assert_refused("promise new_tasks=20 list evaluate", _check_fair, listed)


def test_batches_in_any_split_give_the_same_course(promise: mp.MetaPS, rng: Any) -> None:
    scores, tasks = draw(rng, names("new", 20), power=1.5)
    mixed = rng.permutation(len(scores))
    whole = mp.Monitor(promise)
    whole.add(scores[mixed], tasks[mixed])
    order = [step.task for step in whole.course]
    for cuts in ([5], [1, 2, 19], [*range(1, 20)]):
        parts = mp.Monitor(promise)
        for some in np.split(np.array(order), cuts):
            rows = np.isin(tasks, some)
            parts.add(scores[rows], tasks[rows])
        assert parts.course == whole.course


@pytest.mark.parametrize("worse", ["no", "yes"])
def test_classes_are_watched_one_by_one_too(by_class: Any, rng: Any, worse: str) -> None:
    scores, tasks = draw(rng, names("new", 12), 200)
    labels = np.tile(["no", "yes"], len(scores) // 2)
    scores[labels == worse] **= 3  # one class alone becomes worse
    monitor: Any = mp.Monitor(by_class)
    monitor.add(scores, tasks, labels)
    assert monitor.status == "violated"
    assert f"most likely class {worse}." in monitor.sentence()
    for step, *parts in zip(monitor.course, *monitor.by_class.values(), strict=True):
        assert step.wealth == pytest.approx(np.mean([part.wealth for part in parts]))
        assert step.lower == max(part.lower for part in parts)
        assert step.upper == max(part.upper for part in parts)
        assert step.recent == pytest.approx(np.mean([part.recent for part in parts]))
        assert step.examples == sum(part.examples for part in parts) == 200
        assert step.violated == any(part.violated for part in parts)
    # Each class has its epsilon, and half of the false-alarm probability.
    for label, epsilon in (("no", 0.1), ("yes", 0.2)):
        alone = Watch(epsilon, 0.2, 0.005, 400)
        for step in monitor.by_class[label]:
            own = scores[(tasks == step.task) & (labels == label)]
            assert step.missed == np.count_nonzero(own < by_class.threshold_of(label))
            verdict = judge([100], [step.missed], epsilon=epsilon, alpha=0.2, delta=0.1)
            assert step.violated == (verdict.flagged == 1)
            alone.add(examples=step.examples, missed=step.missed)
            assert (alone.wealth, alone.lower, alone.upper, alone.recent) == step[-4:]
            if monitor.course[monitor.by_class[label].index(step)] in monitor.ambers:
                alone.restart()
    assert monitor.ambers
    # The light needs a class alone to reach as many times the run length as there are classes.
    begun = mp.Monitor(by_class)
    begun.add(scores[:200], tasks[:200], labels[:200])
    powers = []
    for step, epsilon in zip(monitor.by_class.values(), (0.1, 0.2), strict=True):
        counts = next(s for s in step if s.task == tasks[0])
        alone = Watch(epsilon, 0.2, 0.005, 400)
        alone.add(examples=counts.examples, missed=counts.missed)
        powers.append(alone.find_power([100]))
    assert begun.power() in powers
    assert monitor.to_frame().groupby("class").size().to_dict() == {"no": 12, "yes": 12}


def test_a_task_without_examples_of_a_class_counts_for_it(by_class: mp.MetaPS, rng: Any) -> None:
    scores, tasks = draw(rng, names("new", 3))
    for least, expected in ((0, ([0, 100, 100], [0, 0, 100])), (1, ([100, 100], [100]))):
        monitor = mp.Monitor(by_class, min_examples=least)
        monitor.add(scores, tasks, ["no"] * 200 + ["yes"] * 100)
        courses = (monitor.by_class or {}).values()
        assert (*(sorted(s.examples for s in steps) for steps in courses),) == expected
        assert len(monitor.course) == 3


BAD_TERMS: list[Any] = [
    ("promise", {"promise": mp.PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 50))}),
    *(("false_alarm", {"false_alarm": value}) for value in (0, 1, "much", None)),
    *(("min_examples", {"min_examples": value}) for value in (-1, 0.5, None)),
    *(("run_length", {"run_length": value}) for value in (0, -1, 0.5, None)),
]


def test_bad_terms(promise: mp.MetaPS) -> None:
    for words, changes in BAD_TERMS:
        assert_refused(words, lambda: mp.Monitor(**{"promise": promise} | changes))
    with pytest.raises(mp.NotCalibrated):
        mp.Monitor(mp.MetaPS(**LEVELS))


BAD_TASKS: list[Any] = [
    *(("batch", {"batch": value}) for value in ("", " ", 7)),
    ("again", {"again": True}),
    ("again", {"batch": "x", "again": "yes"}),
    ("allow 'typo'", {"allow": ["typo"]}),
    ("scores NaN", {"scores": [0.5, np.nan]}),
    ("scores tasks length", {"tasks": ["a"]}),
    ("'old 4'", {"tasks": ["old 4"] * 2}),
]


def test_bad_tasks(promise: mp.MetaPS) -> None:
    monitor = mp.Monitor(promise)
    for words, changes in BAD_TASKS:
        arguments: dict[str, Any] = {"scores": [0.5, 0.7], "tasks": ["a", "a"]} | changes
        assert_refused(words, lambda: monitor.add(**arguments))
        assert monitor.course == []
    other = mp.Monitor(promise, min_examples=20)  # another process may have begun the state file
    with pytest.raises(mp.InvalidInput, match="fewer than 1 examples.*min_examples=20"):
        other.add_evaluation(mp.evaluate(promise, [0.5, 0.7], ["a", "a"]))


def test_one_task_of_each_cluster_counts(rng: Any) -> None:
    owners = {name: f"owner {i}" for i, name in enumerate(names("old", 60))}
    promise = mp.MetaPS(**LEVELS).calibrate(*draw(rng, [*owners]), clusters=owners)
    monitor = mp.Monitor(promise)
    with pytest.raises(mp.InvalidInput, match="clusters must be passed"):
        monitor.add(*draw(rng, ["a", "b"]))
    january = draw(rng, ["a", "b", "c", "d"])
    owned = {"a": "x", "b": "x", "c": "y", "d": "owner 7"}  # the last was calibrated on
    added = monitor.add(*january, clusters=owned, batch="2026-01")
    counted = sorted(str(step.task) for step in added.steps)
    assert sorted(owned[name] for name in counted) == ["x", "y"]
    assert added.overlap == ("d",)
    assert sorted(monitor.add(*january, clusters=owned).known) == counted
    later = monitor.add(*draw(rng, ["e", "f"]), clusters={"e": "x", "f": "z"})
    assert [step.task for step in later.steps] == ["f"]
    assert later.overlap == ("e",)


@pytest.fixture
def monitor(promise: mp.MetaPS) -> mp.Monitor:
    return mp.Monitor(promise)


@pytest.fixture
def january() -> tuple[Any, Any]:
    return draw(np.random.default_rng(1), ["ohio", "utah", "iowa"])


def test_a_task_counts_once(monitor: mp.Monitor, january: tuple[Any, Any]) -> None:
    monitor.add(*january, batch="2026-01")
    course = [*monitor.course]
    scores, tasks = january
    order = np.random.default_rng(2).permutation(300)  # rows in another order are the same task
    for batch in ("2026-01", "2026-02", None):
        added = monitor.add(scores[order], tasks[order], batch=batch)
        assert (added.steps, sorted(added.known)) == ([], ["iowa", "ohio", "utah"])
    with pytest.raises(mp.InvalidInput, match=r"'ohio' \(batch '2026-01'\).*again=True"):
        monitor.add(*draw(np.random.default_rng(3), ["ohio", "new"]), batch="2026-02")
    other = scores.copy()
    at = np.flatnonzero(tasks == "ohio")
    other[at[np.argmax(scores[at])]] = 2.0  # the same numbers of examples and misses
    with pytest.raises(mp.InvalidInput, match="counted before.*'ohio'"):
        monitor.add(other, tasks)
    assert monitor.course == course  # not even the new one was counted
    monitor.add(scores[:100], [7] * 100, allow=["duplicates"])
    assert monitor.add(scores[:100], ["7"] * 100).known == ["7"]


def test_labels_do_not_select_tasks() -> None:
    """Coarse scores of good tasks are equal from month to month, those of bad tasks are not."""
    rng, runs = np.random.default_rng(0), 60

    def raises_alarm(*, forget: bool) -> bool:
        bets, counted = Bets(0.2, [0.2]), list[Counted]()
        for month in range(12):
            bad = rng.random(10) < 0.15  # at most alpha = 0.2: the guarantee is true
            missed = rng.binomial(50, np.where(bad, 0.3, 0.0)).tolist()
            common: Any = {"batch": str(month), "examples": [50], "cluster": None}
            tasks: list[Any] = [
                common | {"task": f"ward {i}", "missed": [n], "checksum": f"{n}"}
                for i, n in enumerate(missed)
            ]
            if forget:  # negative control: tasks that look like earlier ones are left out
                known = {(old["task"], old["checksum"]) for old in counted}
                tasks = [new for new in tasks if (new["task"], new["checksum"]) not in known]
            new, _known, _dependent = select_new(tasks, counted, "ward", again=True)
            for entry in new:
                bets.settle(exceeds(50, entry["missed"][0], 0.1, bets.levels))
                if reaches(bets.wealth[0], 100):
                    return True
            counted += new
        return False

    most = stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 0.01)
    assert sum(raises_alarm(forget=False) for _ in range(runs)) <= most
    assert sum(raises_alarm(forget=True) for _ in range(runs)) > runs / 2 > most


def test_earlier_tasks_count_in_one_way(
    monitor: mp.Monitor, january: Any, promise: Any, tmp_path: Any
) -> None:
    monitor.add(*january, batch="2026-01")
    february = draw(np.random.default_rng(3), ["ohio", "new"])
    with pytest.raises(mp.InvalidInput, match="with other examples"):
        monitor.add(*february, batch="2026-02")
    assert monitor.terms.again is None  # nothing was left out
    monitor.save(tmp_path / "m.json")
    assert len(monitor.add(*february, batch="2026-02", again=True).steps) == 2
    assert [step.batch for step in monitor.course if step.task == "ohio"] == ["2026-01", "2026-02"]
    assert len(monitor.add(*february, batch="2026-02").known) == 2  # the same batch once more
    with pytest.raises(mp.InvalidInput, match="again must .* counted again"):
        monitor.add(*february, batch="2026-03")
    assert len(monitor.add(*january, batch="2026-03", again=True).steps) == 3  # by chance the same
    with pytest.raises(mp.InvalidInput, match="another batch"):
        monitor.add(*draw(np.random.default_rng(4), ["ohio"]), batch="2026-02", again=True)
    other = mp.Monitor.load(tmp_path / "m.json", promise)
    other.add(*january, batch="2026-02")
    other.save(tmp_path / "m.json")
    other = mp.Monitor.load(tmp_path / "m.json", promise)
    with pytest.raises(mp.InvalidInput, match="again must .* left out"):
        other.add(*february, batch="2026-03", again=True)
    assert len(other.add(*draw(np.random.default_rng(4), ["x"]), batch="y", again=True).steps) == 1


def test_the_order_has_nothing_to_do_with_the_names(monitor: mp.Monitor) -> None:
    """Whoever sorts by name puts all bad tasks first if these come from one region."""
    names = [f"region {i:03d}" for i in range(200)]
    monitor.add(*draw(np.random.default_rng(1), names, 10))
    places = [names.index(str(step.task)) for step in monitor.course]
    assert sorted(places) == [*range(200)]
    ascents = sum(a < b for a, b in pairwise(places))
    assert 60 < ascents < 140  # 99.5 expected, standard deviation 4.1


def test_a_task_under_another_name_is_refused(monitor: mp.Monitor, january: Any) -> None:
    monitor.add(*january, batch="2026-01")
    scores, tasks = january
    for name, check, message in (
        ("ohio ", "task-names", "'ohio' and 'ohio '"),
        ("hio", "duplicates", "'hio' as 'ohio'"),
    ):
        renamed = np.where(tasks == "ohio", name, tasks)
        allow = {"task-names", "duplicates"} - {check}
        with pytest.raises(mp.InvalidInput, match=f"{message}.* pass allow=\\('{check}',\\)"):
            monitor.add(scores, renamed, batch="2026-02", allow=allow)
    added = monitor.add(scores, renamed, batch="2026-02", allow=["duplicates"])
    assert [step.task for step in added.steps] == ["hio"]


def test_coarse_scores_agree_by_chance(promise: mp.MetaPS) -> None:
    """If tasks of one batch have the same counts and scores, so may those of another."""
    coarse = np.tile([0.7, 0.9], 25)
    for tasks, scores in (([3, 3], coarse), ([1, 2], coarse), ([1, 1], np.zeros(50))):
        monitor = mp.Monitor(promise)
        for batch, number in zip(("january", "february"), tasks, strict=True):
            ids = np.repeat([f"{batch} {i}" for i in range(number)], 50)
            assert len(monitor.add(np.tile(scores, number), ids, batch=batch).steps) == number


def test_small_tasks_that_are_all_broken_are_not_good_news(by_class: mp.MetaPS) -> None:
    promise = mp.MetaPS(epsilon=0.2, alpha=0.2, delta=0.1)
    promise.calibrate(*draw(np.random.default_rng(0), names("old", 80), 25))
    monitor = mp.Monitor(promise)
    scores = np.random.default_rng(1).uniform(0.5, 1, 25 * 400)
    scores[np.arange(25 * 400) % 25 < 6] /= 100  # every task misses 24%
    monitor.add(scores, np.repeat(names("new", 400), 25))
    assert monitor.wealth < 0.01
    assert monitor.status == "cannot tell yet"
    assert monitor.sentence().startswith("Amber. ")  # which sees a little more than the alarm
    power: Any = monitor.power()
    assert (power.reach, power.can_tell) == (0.28, True)
    tiny = mp.Monitor(promise)
    tiny.add(scores[np.arange(25 * 400) % 25 > 22], np.repeat(np.arange(400), 2))
    assert tiny.sentence().startswith("Tasks this small cannot tell. ")
    assert "even if every one missed 40%" in tiny.sentence()
    assert "about 5 examples in each" in tiny.sentence()
    small = mp.Monitor(by_class)
    small.add(np.full(80, 0.9), np.repeat(np.arange(10), 8), np.tile(["no"] * 7 + ["yes"], 10))
    assert "missed 40% of a class, " in small.sentence()
    assert small.power() == Watch(0.2, 0.2, 0.005).find_power([1])  # of the rarer class


def test_a_monitor_is_opened_begun_and_saved(rng: Any, tmp_path: Path) -> None:
    promise = mp.MetaPS(**LEVELS, min_examples=30).calibrate(*draw(rng, names("old", 40)))
    path = tmp_path / "monitor.json"
    for name in ("a", "b"):
        with mp.open_monitor(path, promise, false_alarm=0.02, min_examples=10) as monitor:
            monitor.add(*draw(rng, [name]))
    assert {step.task for step in mp.Monitor.load(path).course} == {"a", "b"}
    assert monitor.terms.min_examples == 30  # the guarantee needs more
    before = path.read_bytes()
    for words, options in (
        ("counted before", {}),
        ("false_alarm", {"false_alarm": 0.01}),
        ("min_examples .* 30, .* 31", {"min_examples": 31}),
        ("run_length .* 200, .* 100", {"run_length": 100}),
    ):
        with (
            pytest.raises(mp.InvalidInput, match=words),
            mp.open_monitor(path, promise, **options) as monitor,
        ):
            monitor.add(*draw(rng, ["a", "c"]))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["monitor.json"]


def add_months(monitor: mp.Monitor, months: int) -> None:
    rng = np.random.default_rng(0)
    for i in range(months):
        monitor.add(*draw(rng, [f"{i} {j}" for j in range(4)], power=2.5), batch=f"$2026-{i:02d}$")


def test_a_monitor_is_drawn(promise: mp.MetaPS, tmp_path: Path) -> None:
    monitor: Any = mp.Monitor(promise)
    assert len(draw_monitor(monitor).axes) == 2
    for months, batches in ((3, ["$2026-00$", "$2026-01$", "$2026-02$"]), (13, [])):
        monitor = mp.Monitor(promise)
        add_months(monitor, months)
        wealth, share = monitor.plot(tmp_path / "monitor.png").axes
        assert [text.get_text().strip() for text in wealth.texts] == ["alarm", *batches]
        drawn = wealth.lines[0].get_ydata()
        np.testing.assert_array_equal(drawn, [1.0, *(step.wealth for step in monitor.course)])
        assert wealth.lines[2].get_ydata()[0] == monitor.alarm.wealth
        for line, name in zip(share.lines, ("lower", "upper"), strict=False):
            bounds = [getattr(step, name) for step in monitor.course]
            np.testing.assert_array_equal(line.get_ydata()[1:], bounds)
    assert (tmp_path / "monitor.png").stat().st_size > 5000
