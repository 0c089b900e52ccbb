"""``metapac monitor``: counting month by month, alarms, state files, kills."""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import Monitor, load
from tests.helpers import kills
from tests.helpers.commands import metapac

LEVELS = ["--epsilon", "0.1", "--alpha", "0.2", "--delta", "0.05"]
WORDS = ["--unit", "hospital", "--example", "patient"]


def make(word: str, sites: int, *, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Return a table of hospitals with 80 patients each; a shift makes the scores worse."""
    rng = np.random.default_rng(seed)
    rows = sites * 80
    y = rng.random(rows) < 0.4
    logit = rng.normal(size=rows) + np.where(y, 2 - shift, shift - 2)
    p_yes = 1 / (1 + np.exp(-logit))
    site = np.repeat([f"{word} {i:02d}" for i in range(sites)], 80)
    columns = {"site": site, "y": np.where(y, "yes", "no"), "p_no": 1 - p_yes, "p_yes": p_yes}
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of calibration and of three months, and promise files."""
    place = tmp_path_factory.mktemp("months")
    make("old", 60, seed=0).to_parquet(place / "calibration.parquet")
    for seed, (month, shift) in enumerate({"january": 0, "february": 0, "march": 1.5}.items(), 1):
        make(month, 12, seed=seed, shift=shift).to_parquet(place / f"{month}.parquet")
    words = ["calibrate", place / "calibration.parquet", "--task", "site", "--label", "y", *LEVELS]
    for more in (["-o", place / "promise.json", *WORDS], ["-o", place / "p.json", "--per-class"]):
        result = metapac(*words, *more)
        assert result.exit_code == 0, result.output
    return place


def watch(
    folder: Path, month: str, state: Path, *more: object, promise: str = "promise.json"
) -> Any:
    return metapac(
        "monitor", folder / promise, folder / f"{month}.parquet", "--state", state, *more
    )


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_months_until_an_alarm(folder: Path, tmp_path: Path) -> None:
    state, figure = tmp_path / "monitor.json", tmp_path / "monitor.png"
    first = watch(folder, "january", state, "--plot", figure)
    assert first.exit_code == 0, first.output
    text = words_of(first.stdout)
    assert text.startswith("No alarm yet. That does not show that the guarantee holds: even if ")
    assert " In january 0 of 12 hospitals are above 10% (95%" in text
    assert "12 hospitals counted." in first.stdout
    assert f"state written to {state} figure written to {figure}" in text
    assert figure.stat().st_size > 5000
    second = watch(folder, "february", state, "--batch", "2026-02")
    assert second.exit_code == 0
    third = watch(folder, "march", state)
    assert third.exit_code == 3
    text = words_of(third.stdout)
    assert text.startswith("Alarm after ")
    assert "An unlucky calibration (probability at most 5%) explains it too" in text
    assert "Above 10% (95% confidence, each hospital alone): march" in text
    assert Monitor.load(state).batches == ["january", "2026-02", "march"]
    for name in ("january", "2026-02", "march"):
        assert f"│ {name} " in third.stdout
    assert third.stderr == ""
    # An alarm stays, whatever comes then, and so do the names.
    after = watch(folder, "january", state)
    assert after.exit_code == 3
    assert "Above 10% (95% confidence, each hospital alone): march" in words_of(after.stdout)


def test_a_look_without_a_table(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "monitor.json"
    watch(folder, "january", state)
    before = state.read_bytes()
    words = ["monitor", folder / "promise.json", "--state", state]
    look = metapac(*words)
    assert look.exit_code == 0, look.output
    assert words_of(look.stdout) == words_of(Monitor.load(state).sentence())
    facts = json.loads(metapac(*words, "--json").stdout)
    assert (facts["tasks"], facts["added"], facts["state"]) == (12, [], str(state))
    assert state.read_bytes() == before
    watch(folder, "march", state)
    assert metapac(*words).exit_code == 3
    missing = metapac("monitor", folder / "promise.json", "--state", tmp_path / "none.json")
    assert missing.exit_code == 2
    assert "nothing has been counted yet. Name a table" in words_of(missing.stderr)
    bare = metapac("monitor", folder / "promise.json", "--reference", folder / "january.parquet")
    assert bare.exit_code == 2
    assert "name the table to compare" in bare.stderr


def test_a_renamed_hospital_is_refused(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "monitor.json"
    watch(folder, "january", state)
    table = pd.read_parquet(folder / "january.parquet").replace({"january 03": "jan. 3"})
    table.to_parquet(tmp_path / "renamed.parquet")
    words = ["monitor", folder / "promise.json", tmp_path / "renamed.parquet", "--state", state]
    result = metapac(*words)
    assert result.exit_code == 2
    assert "'jan. 3' as 'january 03'" in result.stderr
    assert words_of(result.stderr).endswith("To go on, pass --allow duplicates.")
    assert metapac(*words, "--allow", "duplicates").exit_code == 0
    assert len(Monitor.load(state).course) == 13


def test_calling_it_twice_changes_nothing(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "monitor.json"
    watch(folder, "january", state)
    before, course = state.read_bytes(), Monitor.load(state).course
    again = watch(folder, "january", state)
    assert again.exit_code == 0
    assert "0 hospitals counted; 12 hospitals counted before." in again.stdout
    assert state.read_bytes() == before
    renamed = watch(folder, "january", state, "--batch", "another name")
    assert "0 hospitals counted; 12 hospitals counted before." in renamed.stdout
    assert Monitor.load(state).course == course
    # One way for all batches: otherwise labels could decide which months count.
    other = watch(folder, "january", state, "--batch", "2026-02", "--again")
    assert other.exit_code == 2
    assert "--again must" in words_of(other.stderr)


def test_json(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "monitor.json"
    watch(folder, "january", state)
    result = watch(folder, "march", state, "--json")
    assert result.exit_code == 3
    facts, monitor = json.loads(result.stdout), Monitor.load(state)
    assert (facts["status"], facts["tasks"]) == ("violated", 24)
    assert facts["sentence"] == monitor.sentence()
    assert facts["alarm"] == monitor.alarm._asdict()  # type: ignore[union-attr]
    assert facts["added"] == [step._asdict() for step in monitor.course[12:]]
    assert [facts["lower"], facts["upper"]] == [*monitor.interval]
    assert facts["batches"] == [
        {"batch": month, "tasks": 12}
        | {"violated": sum(step.violated for step in monitor.course[end - 12 : end])}
        | {name: getattr(monitor.course[end - 1], name) for name in ("wealth", "lower", "upper")}
        for month, end in (("january", 12), ("march", 24))
    ]
    assert facts["limit"] == 100
    assert facts["known"] == facts["overlap"] == []
    assert facts["by_class"] is None
    power = monitor.power()
    assert power is not None
    assert facts["power"] == power._asdict() | {"can_tell": True}
    assert facts["state"] == str(state)


def test_classes(folder: Path, tmp_path: Path) -> None:
    result = watch(folder, "march", tmp_path / "m.json", promise="p.json")
    assert result.exit_code == 3
    assert "for some class, more than 20% of new tasks" in words_of(result.stdout)
    assert "│ no " in result.stdout
    assert "│ yes " in result.stdout
    facts = json.loads(
        watch(folder, "march", tmp_path / "m.json", "--json", promise="p.json").stdout
    )
    assert [row["class"] for row in facts["by_class"]] == ["no", "yes"]
    assert facts["wealth"] == pytest.approx(np.mean([row["wealth"] for row in facts["by_class"]]))


def test_tasks_that_do_not_count(folder: Path, tmp_path: Path) -> None:
    old = pd.read_parquet(folder / "calibration.parquet")
    new = pd.read_parquet(folder / "january.parquet")
    mixed = pd.concat([old[old.site < "old 02"], new[:1], new[80:]])  # one hospital with 1 patient
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    words = ["--min-examples", 5, "--state", tmp_path / "m.json"]
    result = metapac("monitor", folder / "promise.json", tmp_path / "mixed.csv", *words)
    assert result.exit_code == 0, result.output
    assert "11 hospitals counted; 1 hospital left out, too few patients." in result.stdout
    assert "2 hospitals not new (calibrated or trained on, a pilot, or of a known" in result.stdout
    assert "cluster): old 00, old 01." in result.stdout
    assert "Watched: hospitals with at least 5 patients." in result.stdout


def test_one_hospital_of_each_owner_counts(folder: Path, tmp_path: Path) -> None:
    old = pd.read_parquet(folder / "calibration.parquet")
    old = old.assign(owner=old.site.str[-2:].astype(int) // 2)
    old.to_parquet(tmp_path / "old.parquet")
    january = pd.read_parquet(folder / "january.parquet")
    january = january.assign(group=100 + january.site.str[-2:].astype(int) // 2)
    january.to_parquet(tmp_path / "january.parquet")
    promise = tmp_path / "promise.json"
    words = ["--task", "site", "--label", "y", "--cluster", "owner", *LEVELS, "-o", promise]
    assert metapac("calibrate", tmp_path / "old.parquet", *words).exit_code == 0
    command = ["monitor", promise, tmp_path / "january.parquet", "--state", tmp_path / "m.json"]
    result = metapac(*command, "--cluster", "group")
    assert result.exit_code == 0, result.output
    assert len(Monitor.load(tmp_path / "m.json").course) == 6
    result = metapac(*command)
    assert result.exit_code == 2
    assert "has no column 'owner'" in result.stderr


def test_a_task_with_other_examples_needs_again(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "monitor.json"
    watch(folder, "january", state)
    other = make("january", 12, seed=9)
    other.to_parquet(tmp_path / "february.parquet")
    words = ["monitor", folder / "promise.json", tmp_path / "february.parquet", "--state", state]
    before = state.read_bytes()
    result = metapac(*words)
    assert result.exit_code == 2
    assert "with other examples" in words_of(result.stderr)
    assert words_of(result.stderr).endswith("if each batch is a new draw of tasks, pass --again.")
    assert state.read_bytes() == before
    assert metapac(*words, "--again").exit_code == 0
    assert len(Monitor.load(state).course) == 24


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pass --state monitor.json to count labelled tasks, or --reference calibration"),
        (["--state", "m.json", "--reference", "c.parquet"], "without labels; not both."),
        (["--state", "none/m.json"], "folder does not exist; create it first"),
        (["--state", "promise.json"], "promise.json is also the input. Write to another file."),
        (["--state", "january.parquet"], "january.parquet"),
        (["--state", "m.json", "--plot", "m.txt"], "--plot must end in .png, .svg, .pdf"),
        (["--state", "m.json", "--plot", "f.png"], "--plot must be a file, got the folder 'f.png'"),
        (["--state", "m.json", "--false-alarm", 2], "--false-alarm must be a number strictly"),
        (["--state", "m.json", "--label", "z"], "has no column 'z'"),
        (["--state", "m.json", "--batch", " "], "--batch must be a non-empty string, got ' '."),
        (["--state", "m.json", "--model", "b"], None),
    ],
)
def test_bad_input_is_told_in_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Any, message: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.png").mkdir()
    for name in ("promise.json", "january.parquet"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    result = metapac("monitor", "promise.json", "january.parquet", *words)
    if message is None:
        assert "names no model" in result.stderr
        assert result.exit_code == 0
        return
    assert result.exit_code == 2
    assert message in words_of(result.stderr)
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "m.json").exists()
    assert (tmp_path / "promise.json").read_bytes() == (folder / "promise.json").read_bytes()


def test_terms_are_fixed_by_the_first_call(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "monitor.json"
    watch(folder, "january", state, "--false-alarm", 0.05)
    assert Monitor.load(state).terms.limit == 20
    result = watch(folder, "february", state, "--false-alarm", 0.1)
    assert result.exit_code == 2
    assert "--false-alarm must stay at 0.05, with which" in words_of(result.stderr)
    assert watch(folder, "february", state).exit_code == 0
    other = watch(folder, "february", state, promise="p.json")
    assert other.exit_code == 2
    assert "monitor.json watches another guarantee" in other.stderr


def test_an_alarm_is_not_lost_with_the_figure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "figure.png")

    monkeypatch.setattr(Monitor, "plot", fail)
    for more in ([], ["--json"]):
        words: list[object] = ["--plot", tmp_path / "figure.png", *more]
        result = watch(folder, "march", tmp_path / "m.json", *words)
        assert result.exit_code == 3
        assert "Alarm after " in words_of(result.stdout)
        assert "figure written" not in result.stdout
        assert "figure.png: No space left on device" in words_of(result.stderr)
    quiet = watch(folder, "january", tmp_path / "q.json", "--plot", tmp_path / "figure.png")
    assert quiet.exit_code == 2
    assert "No alarm yet" in quiet.stdout


def test_bounds_that_cross_are_no_range(folder: Path, tmp_path: Path) -> None:
    monitor = Monitor(load(folder / "promise.json"))
    for month, score in (("good", 1.0), ("bad", 0.0)):
        tasks = np.repeat([f"{month} {i:02d}" for i in range(60)], 80)
        monitor.add(np.full(len(tasks), score), tasks, batch=month, allow=["duplicates"])
    assert monitor.interval[0] > monitor.interval[1]
    monitor.save(tmp_path / "m.json")
    result = metapac("monitor", folder / "promise.json", "--state", tmp_path / "m.json")
    assert "has changed │" in result.stdout
    assert " 0% to " in result.stdout


def test_tables_without_labels(folder: Path, tmp_path: Path) -> None:
    make("new", 3, seed=4).drop(columns="y").to_parquet(tmp_path / "new.parquet")
    words = ["monitor", folder / "promise.json", tmp_path / "new.parquet"]
    result = metapac(*words, "--state", tmp_path / "m.json")
    assert result.exit_code == 2
    assert "has no column 'y'" in words_of(result.stderr)


def test_a_killed_command_leaves_the_old_or_the_new_state(folder: Path, tmp_path: Path) -> None:
    victims = kills.Victims(tmp_path.resolve())
    try:
        state = victims.root / "monitor.json"
        words = ["monitor", folder / "promise.json", "--state", state, "--threads", 1]
        assert victims.run(*words, folder / "january.parquet")["status"] == 0
        old = state.read_bytes()
        whole = victims.run(*words, folder / "february.parquet")
        assert whole["status"] == 0
        new = state.read_bytes()
        assert whole["writes"] >= 6
        last = whole["writes"] - 1
        for point in (0, last // 2, last - 1, last):
            state.write_bytes(old)
            killed = victims.run(*words, folder / "february.parquet", write=point)
            assert killed["status"] == -signal.SIGKILL
            assert state.read_bytes() in (old, new)
            assert victims.run(*words, folder / "february.parquet")["status"] == 0
            assert state.read_bytes() == new
            assert victims.leftovers() == []
    finally:
        victims.close()
    assert len(Monitor.load(state, load(folder / "promise.json")).course) == 24
