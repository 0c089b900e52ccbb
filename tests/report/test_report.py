"""Reports: from files and objects, to a file that is whole, small, and never an input."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import (
    PS,
    BadArtefact,
    Columns,
    InvalidInput,
    MetaPS,
    MissingExtra,
    Monitor,
    Scored,
    evaluate,
    open_table,
)
from metapac.fewshot import MetaCP
from metapac.provenance import Provenance, write_scores
from metapac.report import SignOff, report
from tests.report.conftest import LEVELS, Reader, calibrate, draw_scores, spoil


@pytest.fixture
def fixed_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@pytest.fixture(scope="module")
def watched(promise: MetaPS) -> Monitor:
    monitor = Monitor(promise)
    for rng, batch in enumerate(("2026-01", "2026-02")):
        data = draw_scores([f"{batch} {i}" for i in range(6)], rng + 5)
        monitor.add(data.scores, data.tasks, data.labels, batch=batch)
    return monitor


@pytest.mark.usefixtures("fixed_date")
def test_a_file_and_its_predictor_give_the_same_report_but_for_the_file(
    promise: MetaPS, labelled: Scored, watched: Monitor, tmp_path: Path
) -> None:
    promise.save(tmp_path / "promise.json")
    output = tmp_path / "report.html"
    html = report(tmp_path / "promise.json", labelled, monitor=watched, output=output)
    assert output.read_text(encoding="utf-8") == html
    assert "14 November 2023" in html
    direct = report(promise, labelled, monitor=watched)
    assert "promise.json" not in direct
    start, end = "<main>", '<section id="provenance"'
    assert (
        html[html.index(start) : html.index(end)] == direct[direct.index(start) : direct.index(end)]
    )
    assert report(promise, labelled, monitor=watched) == direct  # nothing depends on chance


def test_drawing_leaves_the_settings_of_matplotlib_alone(promise: MetaPS) -> None:
    import matplotlib

    first, before = report(promise), dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "none", "axes.grid": True}):
        assert report(promise) == first
    assert dict(matplotlib.rcParams) == before


def test_a_report_says_all_that_the_guarantee_says(promise: MetaPS) -> None:
    text = Reader(report(promise)).text
    claim = (
        "In at least 80% of new hospitals of the same kind, at most 20% of the patients get a set "
        "without the true label. How often the model answers, and how often a person decides, has "
        "not been measured. We are 90% sure of it"
    )
    assert claim in text
    for words in (
        "Guarantee report: model “triage <3.1>”",
        "for another model, or once the model or its scores change.",
        "Nobody has compared the guarantee with labelled new hospitals",
        "On record: 2,000 patients in all.",
        "On record: trained on 1 other hospital; by name, none of them is among these.",
        "The limits (20% of the patients, 20% of the hospitals, a risk of 10%) were chosen before",
        "provided that calibration tasks and new tasks are drawn i.i.d.",
        "No monitor watches this guarantee",
    ):
        assert words in text
    assert str(promise.threshold_)[:5] not in text[: text.index("What is assumed")]


def test_fields_are_filled_or_left_to_write_in(promise: MetaPS) -> None:
    fields = {"purpose", "owner", "population", "dates", "conditions", "valid-until", "next-review"}
    blank = Reader(report(promise))
    assert fields < {found.get("id") for tag, found in blank.tags if tag in ("input", "textarea")}
    assert not any("checked" in found for _tag, found in blank.tags)
    given = SignOff(
        purpose="Triage <by nurses>",
        owner="Safety board",
        population="Adults",
        dates="2024",
        decision="conditions",
        conditions="Nurses decide",
        valid_until="31 May 2027",
        next_review="1 March 2027",
    )
    filled = Reader(report(promise, sign_off=given))
    for text in {*vars(given).values()} - {"conditions"}:
        assert text in filled.text
    left = {found.get("id") for tag, found in filled.tags if tag in ("input", "textarea")}
    assert not fields & left
    checked = [found["id"] for _tag, found in filled.tags if "checked" in found]
    assert checked == ["decision-conditions"]
    assert 'id="conditions"' not in report(promise, sign_off=SignOff(decision="reject"))


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"decision": "yes"}, "decision"),
        ({"owner": ""}, "owner"),
        ({"valid_until": 2027}, "valid_until"),
        ({"decision": "approve", "conditions": "some"}, "conditions"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(fields: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        SignOff(**fields)
    assert caught.value.parameters == (parameter,)


@pytest.mark.parametrize(
    ("predictor", "words"),
    [
        (
            PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99)),
            "At most 10% of new examples of the same kind get a set without the true label.",
        ),
        (
            MetaCP(epsilon=0.2, delta=0.2).calibrate(
                np.random.default_rng(0).random(6000),
                np.repeat(np.arange(60), 100),
                np.linspace(0, 1, 60),
            ),
            "Averaged over new tasks of the same kind, at most 20%",
        ),
        (
            MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial").calibrate(
                [0.5] * 60, np.repeat(np.arange(6), 10)
            ),
            "none of 6",
        ),
        (
            MetaPS(epsilon=0.2, alpha=0.3, delta=None, min_examples=20).calibrate(
                np.random.default_rng(0).random(6000), np.repeat(np.arange(60), 100)
            ),
            "In at least 70% of new tasks of the same kind with at least 20 examples, at most 20%",
        ),
        (
            MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(
                np.linspace(0, 1, 4000),
                np.tile(np.arange(40), 100),
                clusters={task: f"owner {task // 2}" for task in range(40)},
            ),
            "The 20 clusters calibrated on, and the new clusters, were drawn at random from the "
            "same population. One task of each was drawn.",
        ),
    ],
    ids=["PS", "MetaCP", "trivial", "expectation", "clusters"],
)
def test_every_kind_of_guarantee_has_its_report(predictor: Any, words: str) -> None:
    page = Reader(report(predictor))
    assert words in page.text
    assert "What is assumed: confirm each point" in page.text
    is_weak = bool(getattr(predictor, "remarks_", []))
    card = next(found["class"] for _tag, found in page.tags if found.get("id") == "guarantee")
    assert card == f"card is-{'caution' if is_weak else 'quiet'}"


def test_regression(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    sites = np.repeat([f"site {i:02d}" for i in range(40)], 50)
    table = pd.DataFrame({"site": sites, "predicted": rng.normal(50, 9, 2000)})
    table["sd"] = rng.uniform(5, 15, 2000)
    table = table.assign(true=table.predicted + table.sd * rng.normal(size=2000))
    columns = Columns(task="site", prediction="predicted", y="true", scale="sd")
    promise = MetaPS(**LEVELS).calibrate(open_table(table, columns))
    table.assign(site="new " + table.site, true=table.true + 1e-4).to_csv(tmp_path / "new.csv")
    data = open_table(tmp_path / "new.csv")
    page = Reader(report(promise, data, examples=6))
    width = evaluate(promise, data).to_dict()["width"]
    assert (
        f"get an interval without the true number. The intervals are {width:,.4g} wide" in page.text
    )
    assert len(page.tables["Some examples and what they are given"]) == 6
    assert "new.csv" in page.text
    assert hashlib.sha256((tmp_path / "new.csv").read_bytes()).hexdigest() in page.text


def find_card(html: str) -> tuple[str, str]:
    """Return the colour of the card at the top, and its text."""
    start = html.index('<section id="guarantee"')
    card = html[start : html.index("</section>", start)]
    return card.split('"')[3].removeprefix("card is-"), Reader(card).text


def test_verdicts_colour_the_card(promise: MetaPS) -> None:
    many = draw_scores([f"new {i}" for i in range(200)], 3)
    colour, text = find_card(report(promise, many))
    assert (colour, "Checked on new hospitals: holds" in text) == ("good", True)
    few = draw_scores(["new 1", "new 2"], 3)
    more = evaluate(promise, few).to_dict()["verdict"]["more_tasks"]
    colour, text = find_card(report(promise, few))
    assert colour == "caution"
    assert f"What would settle it: about {more} more labelled hospitals like these." in text
    tiny = draw_scores(["new 1", "new 2"], 3, examples=2)
    colour, text = find_card(report(promise, tiny, allow=["task-names"]))
    assert (
        f"What would settle it: {evaluate(promise, tiny).to_dict()['verdict']['sentence']}" in text
    )
    bad = spoil(draw_scores([f"bad {i}" for i in range(20)], 6))
    colour, text = find_card(report(promise, bad, allow=["direction"]))
    assert (colour, "Checked on new hospitals: violated" in text) == ("bad", True)
    assert "At calibration, before the results below, it said: “We are 90% sure of it" in text


def test_a_guarantee_that_holds_trivially_is_not_called_good(labelled: Scored) -> None:
    method = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial")
    colour, text = find_card(report(method.calibrate([0.5] * 10, ["a"] * 10), labelled))
    assert colour == "caution"
    assert "nothing to check Nothing to check: every label is kept, so none is missed." in text


def test_a_neglected_class_turns_the_card_amber() -> None:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(6000), np.repeat(np.arange(60), 100)
    promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1).calibrate(0.5 + scores / 2, tasks)
    rare = rng.random(6000) < 0.02
    labels, new = np.where(rare, "yes", "no"), [f"new {task}" for task in tasks]
    data = Scored(np.where(rare, 0.1, 0.9 + scores / 100), new, labels)
    colour, text = find_card(report(promise, data))
    assert colour == "caution"
    assert "Checked on new tasks: holds, but a class is missed" in text
    assert f"“yes” is missed in {rare.sum()} of {rare.sum()} examples (100%). The guarantee" in text
    assert "not known: the labelled data have scores of true labels only" in text


def test_an_alarm_is_the_first_thing_to_see(promise: MetaPS, labelled: Scored) -> None:
    bad = spoil(draw_scores([f"bad {i}" for i in range(20)], 5))
    monitor = Monitor(promise)
    monitor.add(bad.scores, bad.tasks, bad.labels, batch="April", allow=["direction"])
    assert monitor.alarm is not None
    after = monitor.course.index(monitor.alarm) + 1
    for html in (report(promise, monitor=monitor), report(promise, labelled, monitor=monitor)):
        colour, text = find_card(html)
        assert colour == "bad"
        assert f"Monitor: alarm after {after} hospitals (April). This guarantee can no" in text
        assert 'class="verdict is-good"' not in html  # nothing looks good beside it
    assert "The monitor has counted 20 hospitals, so it can see what one table does not" in text


def test_a_check_that_fails_beside_a_quiet_monitor_is_explained(
    promise: MetaPS, watched: Monitor
) -> None:
    bad = spoil(draw_scores([f"bad {i}" for i in range(20)], 6))
    html = report(promise, bad, monitor=watched, allow=["direction"])
    assert (
        "12 hospitals and may be read at any time, so it needs more evidence" in find_card(html)[1]
    )
    assert '<div class="verdict is-caution"><p>No alarm' in html


def test_the_monitor_has_to_be_of_this_promise(
    promise: MetaPS, calibration: Scored, watched: Monitor, tmp_path: Path
) -> None:
    watched.save(tmp_path / "monitor.json")
    for monitor in (watched, tmp_path / "monitor.json"):
        rows = Reader(report(promise, monitor=monitor)).tables["Batches"]
        assert [row[0] for row in rows] == ["2026-01", "2026-02"]
        assert rows[-1][-1] == f"{watched.wealth:.3g}"
        missed = sum(int(row[2].split(" of ")[0]) for row in rows)
        assert missed == sum(step.missed for step in watched.course)
        with pytest.raises(InvalidInput, match="another"):
            report(calibrate(calibration, epsilon=0.3), monitor=monitor)
    assert "or it has seen nothing yet" in report(promise, monitor=Monitor(promise))


def test_a_hundred_thousand_tasks_are_a_small_file() -> None:
    rng = np.random.default_rng(0)
    known, new = (np.repeat(np.arange(n), 20) for n in (500, 100_000))
    method = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate(rng.random(len(known)), known)
    p = rng.random((len(new), 1))
    labels = np.where(rng.random(len(new)) < p[:, 0], 0, 1)
    html = report(method, Scored(np.hstack([p, 1 - p]), new + 500, labels, (0, 1)))
    assert len(html) < 500_000
    assert "The 500 worst of 100,000 rows" in html
    assert "The bars show how many tasks" in html


def test_a_long_course_is_a_small_drawing(promise: MetaPS) -> None:
    monitor = Monitor(promise)
    data = draw_scores([f"later {i}" for i in range(3_000)], 5, examples=5)
    monitor.add(data.scores, data.tasks, data.labels)
    assert len(report(promise, monitor=monitor)) < 400_000


def test_examples_are_shown_only_if_wanted(promise: MetaPS, labelled: Scored) -> None:
    caption = "Some patients and what they are given"
    evaluated = report(promise, evaluate(promise, labelled), examples=3)
    for html in (report(promise, labelled), evaluated):
        assert "Checked on new hospitals" in html
        assert caption not in html
    rows = Reader(report(promise, labelled, examples=7)).tables[caption]
    assert len(rows) == 7
    assert {row[3] for row in rows} == {"missed", "contains it"}
    for _task, truth, labels, outcome in rows:
        assert (truth in labels.split(", ")) == (outcome == "contains it")
    true = labelled.scores[np.arange(1000), [["cat", "dog"].index(x) if x in ("cat", "dog") else 2
                                             for x in labelled.labels]]  # fmt: skip
    assert caption not in report(promise, Scored(true, labelled.tasks), examples=7)  # no sets
    other = replace(evaluate(promise, labelled), epsilon=0.01, verdict=None)
    with pytest.raises(InvalidInput) as caught:
        report(promise, other)
    assert caught.value.parameters == ("labelled",)


def test_files_say_which_model_gave_their_scores(promise: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    data = draw_scores([f"new {i}" for i in range(20)], 1)
    columns = {"site": data.tasks.tolist(), "y": data.labels.tolist()}
    columns |= {f"p_{i}": data.scores[:, i].tolist() for i in range(3)}
    about = Provenance(model="triage <3.1>", details={"weights_checksum": "abc"})
    write_scores(path, columns, about)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    names = Columns(task="site", label="y", columns=["p_0", "p_1", "p_2"], classes=data.classes)
    text = Reader(report(promise, open_table(path, names))).text
    assert "last changed 2023-11-14" in text
    assert "model: triage <3.1>" in text
    assert "weights checksum: abc" in text


def test_inputs_and_other_files_are_never_overwritten(promise: MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "promise.html"  # a promise file may have any name
    promise.save(path)
    page = tmp_path / "page.html"
    page.write_text("<html>My own page</html>")
    for output, words in ((path, "is also the input"), (page, "must not replace a file that is")):
        before = output.read_bytes()
        with pytest.raises(InvalidInput, match=words):
            report(path, output=output)
        assert output.read_bytes() == before


def test_an_earlier_report_is_replaced_but_not_by_a_failure(
    promise: MetaPS, tmp_path: Path
) -> None:
    output = tmp_path / "report.html"
    output.touch()
    first = report(promise, title="first", output=output)
    with pytest.raises(InvalidInput):
        report(promise, Scored([0.5], ["old 1"]), output=output)
    assert output.read_text(encoding="utf-8") == first
    report(promise, title="second", output=output)
    assert "<h1><bdi>second</bdi></h1>" in output.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"output": "report.pdf"}, "output"),
        ({"examples": -1}, "examples"),
        ({"monitor": 3}, "monitor"),
        ({"model": "other"}, "model"),
        ({"false_alarm": 0.5, "labelled": draw_scores(["new"], 0)}, "false_alarm"),
        ({"labelled": "new.csv"}, "labelled"),  # a path names no columns
        ({"labelled": Scored([0.5], ["old 1"])}, None),
        ({"sign_off": {"owner": "me"}}, None),
        ({"promise": {"epsilon": 0.1}}, None),
    ],
)
def test_what_cannot_be_used_is_refused(
    promise: MetaPS, arguments: dict[str, Any], parameter: str | None
) -> None:
    with pytest.raises(InvalidInput) as caught:
        report(**{"promise": promise, **arguments})
    assert caught.value.parameters == (() if parameter is None else (parameter,))


def test_a_baseline_takes_no_labelled_tasks_and_a_promise_is_a_promise(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    method = MetaCP(epsilon=0.2, delta=0.2)
    method.calibrate(rng.random(6000), np.repeat(np.arange(60), 100), rng.random(60))
    with pytest.raises(InvalidInput, match="labelled cannot be used with MetaCP"):
        report(method, Scored([0.5], ["a"]))
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(BadArtefact, match="is not a metapac promise file"):
        report(tmp_path / "other.json")


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_the_extra_is_checked_before_the_work(
    promise: MetaPS, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"a report needs .* pip install 'metapac\[report\]'"):
        report(promise, labelled="no such file")


def test_it_is_drawn_where_address_space_is_limited(promise: MetaPS, tmp_path: Path) -> None:
    promise.save(tmp_path / "promise.json")
    code = f"from metapac.report import report; report({str(tmp_path / 'promise.json')!r})"
    limit = 6 * 2**30
    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
