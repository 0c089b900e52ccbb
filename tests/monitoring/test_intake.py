"""Which tasks count: each once, in an order that no name and no label decides."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from metapac import InvalidInput, MetaPS, Monitor
from metapac.betting import Bets, exceeds, reaches
from metapac.monitoring import Counted, select_new
from tests.helpers import oracles
from tests.monitoring.conftest import draw


@pytest.fixture
def monitor(promise: MetaPS) -> Monitor:
    return Monitor(promise)


@pytest.fixture
def january() -> tuple[Any, Any]:
    return draw(np.random.default_rng(1), ["ohio", "utah", "iowa"])


def test_a_task_counts_once(monitor: Monitor, january: tuple[Any, Any]) -> None:
    monitor.add(*january, batch="2026-01")
    course = [*monitor.course]
    for batch in ("2026-01", "2026-02", None):
        added = monitor.add(*january, batch=batch)
        assert added.steps == []
        assert sorted(added.known) == ["iowa", "ohio", "utah"]
        assert monitor.course == course


def test_rows_in_another_order_are_the_same_task(monitor: Monitor, january: Any) -> None:
    monitor.add(*january)
    order = np.random.default_rng(2).permutation(300)
    assert len(monitor.add(january[0][order], january[1][order]).known) == 3


def test_a_task_with_other_examples_is_refused(monitor: Monitor, january: Any) -> None:
    monitor.add(*january, batch="2026-01")
    course = [*monitor.course]
    changed = draw(np.random.default_rng(3), ["ohio", "new"])
    message = (
        r"clinic 'ohio' was counted before \(batch '2026-01'\) with other examples. A task counts "
        r"once: a bad one that is seen again is no new evidence. Leave it out; or, if each batch "
        r"is a new draw of tasks, pass again=True."
    )
    with pytest.raises(InvalidInput, match=message):
        monitor.add(*changed, batch="2026-02")
    assert monitor.course == course  # not even the new one was counted
    more = draw(np.random.default_rng(3), ["ohio", "utah"])
    with pytest.raises(InvalidInput, match=r"clinics 'ohio', 'utah' were counted before|'utah', "):
        monitor.add(*more)


def test_a_single_other_score_is_noticed(monitor: Monitor, january: Any) -> None:
    monitor.add(*january)
    scores = january[0].copy()
    at = np.flatnonzero(january[1] == "ohio")
    scores[at[np.argmax(scores[at])]] = 2.0  # the same numbers of examples and misses
    with pytest.raises(InvalidInput, match="clinic 'ohio' was counted before with other"):
        monitor.add(scores, january[1])


def test_again_counts_a_task_of_another_batch(monitor: Monitor, january: Any) -> None:
    monitor.add(*january, batch="2026-01")
    february = draw(np.random.default_rng(3), ["ohio", "new"])
    added = monitor.add(*february, batch="2026-02", again=True)
    assert len(added.steps) == 2
    assert [step.batch for step in monitor.course if step.task == "ohio"] == ["2026-01", "2026-02"]
    assert monitor.add(*february, batch="2026-02", again=True).steps == []
    assert len(monitor.add(*january, batch="2026-03", again=True).steps) == 3  # by chance the same
    once_more = draw(np.random.default_rng(4), ["ohio"])
    with pytest.raises(InvalidInput, match=r"In one batch a task counts once: leave it out; or,"):
        monitor.add(*once_more, batch="2026-02", again=True)


def test_labels_do_not_select_tasks() -> None:
    """Coarse scores of good tasks are equal from month to month, those of bad tasks are not."""
    rng, runs = np.random.default_rng(0), 60

    def raises_alarm(*, forget: bool) -> bool:
        bets, counted = Bets(0.2, [0.2]), list[Counted]()
        for month in range(12):
            bad = rng.random(10) < 0.15  # at most alpha = 0.2: the guarantee is true
            missed = rng.binomial(50, np.where(bad, 0.3, 0.0)).tolist()
            tasks = [
                Counted(f"ward {i}", str(month), (50,), (n,), f"{n}") for i, n in enumerate(missed)
            ]
            if forget:  # negative control: tasks that look like earlier ones are left out
                known = {(old.task, old.checksum) for old in counted}
                tasks = [entry for entry in tasks if (entry.task, entry.checksum) not in known]
            new, _known, _dependent = select_new(tasks, counted, "ward", again=True)
            for entry in new:
                bets.settle(exceeds(50, entry.missed[0], 0.1, bets.levels))
                if reaches(bets.wealth[0], 100):
                    return True
            counted += new
        return False

    most = stats.binom.ppf(1 - oracles.FALSE_ALARM, runs, 0.01)
    assert sum(raises_alarm(forget=False) for _ in range(runs)) <= most
    assert sum(raises_alarm(forget=True) for _ in range(runs)) > runs / 2 > most


def test_tasks_of_earlier_batches_count_in_one_way(
    monitor: Monitor, january: Any, promise: MetaPS, tmp_path: Any
) -> None:
    monitor.add(*january, batch="2026-01")
    assert monitor.terms.again is None
    february = draw(np.random.default_rng(3), ["ohio"])
    with pytest.raises(InvalidInput, match="with other examples"):
        monitor.add(*february, batch="2026-02")
    assert monitor.terms.again is None  # nothing was left out
    monitor.save(tmp_path / "m.json")
    monitor.add(*february, batch="2026-02", again=True)
    assert monitor.terms.again is True
    with pytest.raises(InvalidInput, match=r"again must be the same .* counted again. Pass it too"):
        monitor.add(*february, batch="2026-03")
    assert len(monitor.add(*february, batch="2026-02").known) == 1  # the same batch once more
    other = Monitor.load(tmp_path / "m.json", promise)
    other.add(*january, batch="2026-02")
    assert other.terms.again is False
    other.save(tmp_path / "m.json")
    other = Monitor.load(tmp_path / "m.json", promise)
    with pytest.raises(InvalidInput, match=r"were left out. Leave it out, or begin another state"):
        other.add(*february, batch="2026-03", again=True)
    assert len(other.add(*draw(np.random.default_rng(4), ["x"]), batch="y", again=True).steps) == 1


def test_names_of_batches_are_checked(monitor: Monitor, january: Any) -> None:
    wrong: Any
    for wrong in ("", " ", 7):
        with pytest.raises(InvalidInput, match="batch must be a non-empty string"):
            monitor.add(*january, batch=wrong)
    with pytest.raises(InvalidInput, match=r"again needs the name of the batch .* batch='2026-01'"):
        monitor.add(*january, again=True)
    with pytest.raises(InvalidInput, match="again must be True or False"):
        monitor.add(*january, batch="x", again="yes")  # type: ignore[arg-type]
    assert monitor.course == []


def test_seven_and_its_text_are_one_name(monitor: Monitor) -> None:
    scores, tasks = draw(np.random.default_rng(1), [7])
    monitor.add(scores, tasks)
    assert monitor.add(scores, ["7"] * 100).known == ["7"]


def test_the_order_has_nothing_to_do_with_the_names(monitor: Monitor) -> None:
    """Whoever sorts by name puts all bad tasks first if these come from one region."""
    names = [f"region {i:03d}" for i in range(200)]
    monitor.add(*draw(np.random.default_rng(1), names, 10))
    places = [names.index(str(step.task)) for step in monitor.course]
    assert sorted(places) == [*range(200)]
    ascents = sum(a < b for a, b in pairwise(places))
    assert 60 < ascents < 140  # 99.5 expected, standard deviation 4.1


def test_infinite_scores_and_odd_names_can_be_saved(monitor: Monitor, tmp_path: Any) -> None:
    scores = np.concatenate([np.full(50, -np.inf), np.full(50, 0.9)])
    monitor.add(scores, ["‮<b>ü\n"] * 50 + ["日本"] * 50, batch="</script>")
    monitor.save(tmp_path / "m.json")
    assert Monitor.load(tmp_path / "m.json").course == monitor.course


def test_a_task_under_another_name_is_refused(monitor: Monitor, january: Any) -> None:
    monitor.add(*january, batch="2026-01")
    scores, tasks = january
    for name, check, message in (
        ("ohio ", "task-names", r"names of clinics differ only in spaces.*'ohio' and 'ohio '"),
        ("hio", "duplicates", r"under another name: 'hio' as 'ohio'.* A clinic under two names"),
    ):
        renamed = np.where(tasks == "ohio", name, tasks)
        with pytest.raises(InvalidInput, match=f"{message}.* pass allow=\\('{check}',\\)"):
            monitor.add(
                scores, renamed, batch="2026-02", allow={"task-names", "duplicates"} - {check}
            )
        assert len(monitor.course) == 3
    added = monitor.add(scores, renamed, batch="2026-02", allow=["duplicates"])
    assert [step.task for step in added.steps] == ["hio"]


def test_coarse_scores_agree_by_chance(monitor: Monitor) -> None:
    """If tasks of one batch have the same counts and scores, so may those of another."""
    for batch in ("january", "february"):
        tasks = np.repeat([f"{batch} {i}" for i in range(3)], 50)
        assert len(monitor.add(np.tile([0.7, 0.9], 75), tasks, batch=batch).steps) == 3


def test_one_score_for_all_tells_nothing(monitor: Monitor) -> None:
    for batch in ("january", "february"):
        assert len(monitor.add(np.zeros(50), [batch] * 50, batch=batch).steps) == 1
