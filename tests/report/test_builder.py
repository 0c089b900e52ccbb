"""Reports: from files and objects, to a file that is whole, small, and never an input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import PS, InvalidInput, MetaPS, MissingExtra, Monitor, Scored, evaluate
from metapac.fewshot import MetaCP
from metapac.report import report
from tests.report.conftest import draw_scores


@pytest.fixture
def fixed_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@pytest.mark.usefixtures("fixed_date")
def test_a_file_and_its_predictor_give_the_same_report_but_for_the_file(
    promise: MetaPS, labelled: Scored, tmp_path: Path
) -> None:
    promise.save(tmp_path / "promise.json")
    output = tmp_path / "report.html"
    html = report(tmp_path / "promise.json", labelled, output=output)
    assert output.read_text(encoding="utf-8") == html
    assert "14 November 2023" in html
    assert "promise.json" in html
    direct = report(promise, labelled)
    assert "promise.json" not in direct
    start, end = '<div class="hero">', '<section id="provenance"'
    assert (
        html.partition(start)[2].partition(end)[0] == direct.partition(start)[2].partition(end)[0]
    )
    assert report(promise, labelled) == direct  # nothing depends on chance


def test_a_report_says_all_that_the_guarantee_says(promise: MetaPS) -> None:
    html = report(promise)
    for words in ("at least 80% of new hospitals of the same kind", "We are 90% sure of it"):
        assert words in html
    assert "for another model, or once the model or its scores change" in html
    assert "provided that calibration tasks and new tasks are drawn i.i.d." in html
    assert "Nobody has compared the guarantee with labelled new hospitals" in html
    assert "This report was made without the calibration scores" in html
    assert "No monitor watches this guarantee" in html


def test_ten_thousand_tasks_stay_below_two_megabytes() -> None:
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(10_000), 20)

    def draw(first: int) -> Scored:
        p = rng.random((len(tasks), 1))
        scores, labels = np.hstack([p, 1 - p]), np.where(rng.random(len(tasks)) < p[:, 0], 0, 1)
        return Scored(scores, tasks + first, labels, (0, 1))

    calibration, labelled = draw(0), draw(10_000)
    method = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, split="tight")
    method.calibrate(*(calibration.scores, calibration.tasks, calibration.labels), classes=(0, 1))
    html = report(method, labelled, calibration=calibration, epsilons=[0.3])
    assert len(html.encode()) < 2_000_000
    assert "The 500 worst of 10,000 rows" in html


def test_what_was_evaluated_before_can_be_passed(promise: MetaPS, labelled: Scored) -> None:
    data = labelled.scores, labelled.tasks, labelled.labels
    html = report(promise, evaluate(promise, *data, classes=labelled.classes))
    assert "Checked on new hospitals:" in html
    assert "Some patients with what they are given" not in html


def test_no_examples_are_shown_if_none_are_wanted(promise: MetaPS, labelled: Scored) -> None:
    title = "Some patients with what they are given"
    assert title in report(promise, labelled, examples=3)
    assert title not in report(promise, labelled, examples=0)


@pytest.mark.parametrize(
    "predictor",
    [
        PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99)),
        MetaCP(epsilon=0.2, delta=0.2).calibrate(
            np.random.default_rng(0).random(6000),
            np.repeat(np.arange(60), 100),
            np.linspace(0, 1, 60),
        ),
        MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial").calibrate(
            [0.5] * 60, np.repeat(np.arange(6), 10)
        ),
        MetaPS(epsilon=0.2, alpha=0.3, delta=None).calibrate(
            np.random.default_rng(0).random(6000), np.repeat(np.arange(60), 100)
        ),
    ],
    ids=["PS", "MetaCP", "trivial", "expectation"],
)
def test_every_kind_of_guarantee_has_its_report(predictor: Any) -> None:
    html = report(predictor)
    assert "What is assumed: a list to sign" in html
    assert "Other values can be tried only" in html or "without the calibration scores" in html


def test_a_guarantee_for_examples_can_be_compared_with_tasks() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99))
    html = report(promise, Scored(np.linspace(0, 1, 60), np.repeat(["a", "b"], 30)))
    assert "Checked on new tasks" in html
    assert '<div class="hero">' in html
    broken = report(promise, Scored(np.linspace(0, 0.1, 60), np.repeat(["a", "b"], 30)))
    assert "Checked on new tasks: violated" in broken
    assert '<div class="hero is-broken">' in broken


def test_of_many_classes_the_first_stand_at_the_top_and_no_cut_is_silent() -> None:
    rng = np.random.default_rng(2)
    classes = [f"kind {i}" for i in range(60)]
    tasks, labels = np.repeat(np.arange(30), 1200), np.tile(np.arange(60), 600)
    scores = rng.random((len(tasks), 60))
    scores[np.arange(len(tasks)), labels] += 0.95
    names = np.array(classes)[labels]
    levels: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.2, "per_class": True}
    promise = MetaPS(**levels).calibrate(scores, tasks, names, classes=classes)
    new = Scored(scores + 1e-6, np.char.add("new ", tasks.astype(str)), names, classes)
    html = report(promise, new)
    top = html[: html.index("<nav")]
    assert top.count("get a list without it") == 5
    assert "and 55 more classes" in top
    assert html.count("get a list without it") == 20
    assert "and 40 more classes, with" in html
    assert "thresholds_" not in html[: html.index("The same for statisticians")]
    assert html.count("And 10 more classes.") == 2  # of the tables of thresholds and of data
    assert "Of 60 classes, the 50 worst are listed" in html


def test_inputs_are_never_overwritten(promise: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "promise.html"  # a promise file may have any name
    promise.save(path)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="is also the input. Write to another file."):
        report(path, output=path)
    assert path.read_bytes() == before


def test_only_an_earlier_report_is_replaced(promise: MetaPS, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    output.touch()
    first = report(promise, title="first", output=output)
    assert report(promise, title="second", output=output) != first
    assert "second" in output.read_text(encoding="utf-8")
    output.write_text("<html>My own page</html>")
    with pytest.raises(InvalidInput, match="must not replace a file that is not a report of met"):
        report(promise, output=output)
    assert output.read_text() == "<html>My own page</html>"


def spoil(data: Scored) -> Scored:
    """Return the same tasks with scores of 0 for all true labels."""
    is_true = data.labels[:, None] == np.array(data.classes, dtype=object)
    return Scored(np.where(is_true, 0.0, data.scores), data.tasks, data.labels, data.classes)


def test_an_alarm_is_the_first_thing_to_see(promise: MetaPS, labelled: Scored) -> None:
    bad = spoil(draw_scores([f"bad {i}" for i in range(20)], 5))
    monitor = Monitor(promise)
    monitor.add(bad.scores, bad.tasks, bad.labels, batch="April", allow=["direction"])
    assert monitor.alarm is not None
    for html in (report(promise, monitor=monitor), report(promise, labelled, monitor=monitor)):
        hero = html.partition('<div class="hero is-broken">')[2].partition("<nav")[0]
        assert "(April). This guarantee can no longer be relied on." in hero
        assert '<a href="#monitor">' in hero
        assert "sure of it" not in hero
        assert "no alarm" not in hero
        assert 'class="verdict">' not in html  # nothing is green beside it


def test_a_check_that_fails_beside_a_quiet_monitor_is_explained(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    good = draw_scores([f"good {i}" for i in range(5)], 5)
    monitor.add(good.scores, good.tasks, good.labels)
    bad = spoil(draw_scores([f"bad {i}" for i in range(20)], 6))
    html = report(promise, bad, monitor=monitor, allow=["direction"])
    words = "The monitor counts all 5 hospitals that it was given and may be read at any time"
    assert html.count(words) == 2  # at the verdict, and in the section of the monitor
    assert "Here the two disagree." in html
    assert '<div class="verdict is-caution"><p>No alarm' in html


def test_a_failed_report_leaves_the_old_one(
    promise: MetaPS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "report.html"
    output.write_text(report(promise, title="old"), encoding="utf-8")
    before = output.read_bytes()
    with pytest.raises(InvalidInput):
        report(promise, Scored([0.5], ["old 1"]), output=output)
    assert output.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"output": "report.pdf"}, "output must end in .html, got 'report.pdf'"),
        ({"examples": -1}, "examples must be a whole number from 0"),
        ({"monitor": 3}, "monitor must be a Monitor or its file, got 3"),
        ({"model": "other"}, "model must be 'triage <3.1>', the model that was calibrated"),
        ({"labelled": Scored([0.5], ["old 1"])}, "every task has the name of a calibration"),
    ],
)
def test_what_cannot_be_used_is_refused(
    promise: MetaPS, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        report(promise, **arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize("module", ["jinja2", "vl_convert"])
def test_the_extra_is_checked_before_the_work(
    promise: MetaPS, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"a report needs .* pip install 'metapac\[report\]'"):
        report(promise, labelled="no such file")


def test_stages_are_told(promise: MetaPS, labelled: Scored, calibration: Scored) -> None:
    told: list[str] = []
    report(
        promise,
        labelled,
        calibration=calibration,
        epsilons=[],
        progress=lambda stage, *_: told.append(stage),
    )
    assert told == ["evaluating the sets of each task", "trying other miss rates, 0.2", "drawing"]
