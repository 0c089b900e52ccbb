"""Evaluations on disk: resumed after a kill, refused if damaged or different."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

import metapac
from metapac import BadArtefact, Guarantee, artefact
from metapac.fewshot import Method, Rule, paper_methods, run_study
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import Chosen
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import read_rows, read_settings
from tests.helpers.studies import GUARANTEE, SmallStudy, same_rows

DRAWS = 4


def run(folder: Path, study: SmallStudy | None = None, **changes: Any) -> Rows:
    settings: dict[str, Any] = {"guarantee": GUARANTEE, "draws": DRAWS, "folder": folder}
    return run_study(study or SmallStudy(), **(settings | changes))


def draw_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("draws-*/*.csv.gz"))


@dataclass(frozen=True)
class Counting(SmallStudy):
    """A study that counts its draws; it describes itself as the one that does not."""

    def draw(self, rng: np.random.Generator) -> Draw:
        COUNTED.append(1)
        return super().draw(rng)


COUNTED: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    COUNTED.clear()


def test_a_folder_changes_nothing(tmp_path: Path) -> None:
    assert same_rows(run(tmp_path), run_study(SmallStudy(), guarantee=GUARANTEE, draws=DRAWS))


def test_the_settings_say_all_that_the_rows_depend_on(tmp_path: Path) -> None:
    run(tmp_path, rng=7)
    result = read_settings(tmp_path)
    assert result["guarantee"] == {"epsilon": 0.3, "alpha": 0.4, "delta": 0.2}
    assert (result["draws"], result["rng"]) == (DRAWS, 7)
    assert result["study"] == SmallStudy().describe()
    assert result["versions"] == {
        "metapac": metapac.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }
    assert result["methods"][3] == {
        "name": "Meta-PS even", "rule": "meta_ps", "version": "1",
        "epsilon": 0.3, "alpha": 0.4, "delta": 0.2, "split": "even",
    }  # fmt: skip


def test_finished_draws_are_not_repeated(tmp_path: Path) -> None:
    rows = run(tmp_path, Counting())
    assert len(COUNTED) == DRAWS
    (tmp_path / "rows.csv.gz").unlink()
    draw_files(tmp_path)[2].unlink()
    calls: list[tuple[Any, ...]] = []
    again = run(tmp_path, Counting(), progress=lambda *call: calls.append(call))
    assert same_rows(again, rows)
    assert len(COUNTED) == DRAWS + 1
    assert calls == [("draws", DRAWS, DRAWS)]
    assert same_rows(read_rows(tmp_path), rows)


def test_more_draws_resume_from_fewer(tmp_path: Path) -> None:
    run(tmp_path, Counting())
    rows = run(tmp_path, Counting(), draws=DRAWS + 2)
    assert len(COUNTED) == DRAWS + 2
    assert same_rows(rows, run_study(SmallStudy(), guarantee=GUARANTEE, draws=DRAWS + 2))
    assert read_settings(tmp_path)["draws"] == DRAWS + 2


def test_fewer_draws_do_not_shrink_a_finished_table(tmp_path: Path) -> None:
    run(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(
        ValueError,
        match=r"already holds 4 draws, more than draws=3\. Pass at least draws=4, or choose ano",
    ):
        run(tmp_path, draws=DRAWS - 1)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    (tmp_path / "rows.csv.gz").unlink()  # an evaluation that has not ended may end sooner
    assert len(np.unique(run(tmp_path, Counting(), draws=DRAWS - 1).draw)) == DRAWS - 1
    assert not COUNTED


def test_a_failure_loses_no_finished_draw(tmp_path: Path) -> None:
    def stop(stage: str, done: int, total: int | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop)
    assert len(draw_files(tmp_path)) == 2
    assert same_rows(
        run(tmp_path, Counting()), run_study(SmallStudy(), guarantee=GUARANTEE, draws=DRAWS)
    )
    assert len(COUNTED) == DRAWS - 2


KILLED = """
import os, signal, sys
from tests.helpers.studies import GUARANTEE, SmallStudy
from metapac.fewshot import run_study

def killed_at(owner, name, call):
    calls, before = [], getattr(owner, name)
    def counted(*args):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*args)
    setattr(owner, name, counted)

{kill}
run_study(SmallStudy(), guarantee=GUARANTEE, draws=4, folder=sys.argv[1])
"""


@pytest.mark.parametrize(
    "kill",
    [
        "killed_at(SmallStudy, 'draw', 3)",
        "killed_at(os, 'fsync', 7)",  # in the middle of a file: each takes two, settings come first
    ],
)
def test_a_killed_evaluation_resumes_to_the_same_rows(tmp_path: Path, kill: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(kill=kill), tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in draw_files(tmp_path) if path.name[0] != "."] == [
        "00000.csv.gz",
        "00001.csv.gz",
    ]
    with pytest.raises(FileNotFoundError, match="evaluation is not finished; call run_study"):
        read_rows(tmp_path)
    rows = run(tmp_path, Counting())
    assert len(COUNTED) == 2
    run(tmp_path / "at once")
    assert same_rows(rows, read_rows(tmp_path / "at once"))
    assert (tmp_path / "rows.csv.gz").read_bytes() == (
        tmp_path / "at once" / "rows.csv.gz"
    ).read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rng": 1},
            "holds an evaluation with rng=0, but this one has rng=1. Use the same settings, or",
        ),
        (
            {"guarantee": replace(GUARANTEE, epsilon=0.25)},
            "with guarantee.epsilon=0.3, but this one has guarantee.epsilon=0.25.",
        ),
        ({"guarantee": replace(GUARANTEE, alpha=0.5)}, "guarantee.alpha=0.4, but this one"),
        ({"study": SmallStudy(tests=5)}, "with study.tests=4, but this one has study.tests=5."),
        ({"methods": paper_methods(GUARANTEE)[:3]}, "with methods="),
    ],
)
def test_another_evaluation_is_refused_by_what_differs(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    run(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(ValueError, match=message):
        run(tmp_path, **changes)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path)
    monkeypatch.setattr(np, "__version__", "9.9")
    with pytest.raises(ValueError, match="this one has versions.numpy='9.9'"):
        run(tmp_path)


def fixed(cut: float, **version: str) -> list[Method]:
    """A method of the user, whose threshold is written in its body."""
    names: dict[str, Any] = {"Chosen": Chosen, "np": np}
    body = f"return Chosen(np.full(len(draw.tests), {cut}), np.full(len(draw.tests), True))"
    exec(f"def mine(draw, g):\n    {body}", names)
    return [Method("mine", Rule(names["mine"]), GUARANTEE, **version)]


@pytest.mark.parametrize("draws", [DRAWS, DRAWS + 2])
def test_a_rule_that_changed_is_refused_and_never_mixed(tmp_path: Path, draws: int) -> None:
    run(tmp_path, methods=fixed(0.1))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(ValueError, match=r"of another rule: that of method 'mine'.*other folder"):
        run(tmp_path, methods=fixed(5.0), draws=draws)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    rows = run(tmp_path, Counting(), methods=fixed(0.1), draws=draws)
    assert set(rows.threshold) == {0.1}
    assert len(COUNTED) == draws - DRAWS


def test_a_version_replaces_the_code(tmp_path: Path) -> None:
    run(tmp_path, methods=fixed(0.1, version="1"))
    run(tmp_path, Counting(), methods=fixed(0.1 + 1e-9, version="1"))
    assert not COUNTED
    with pytest.raises(ValueError, match="has version 2, and before it had 1"):
        run(tmp_path, methods=fixed(0.1, version="2"))


def test_a_rule_that_cannot_be_compared_needs_a_version(tmp_path: Path) -> None:
    chosen = (cut for cut in [0.1])
    methods = [Method("mine", Rule(lambda draw, g: next(chosen)), GUARANTEE)]  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"method 'mine': .* Pass Method\(..., version=\"1\"\)"):
        run(tmp_path / "new", methods=methods)
    assert not (tmp_path / "new").exists()


def as_before_versions(folder: Path) -> None:
    """Make a folder what an older metapac would have written: no versions, other words."""
    settings = read_settings(folder)
    for method in settings["methods"]:
        del method["version"]
    settings["versions"]["metapac"] = "0.1.0"
    settings["study"]["notes"] = ["In other words."]
    forge(folder, **settings)
    settings.pop("draws")
    next(folder.glob("draws-*")).rename(folder / f"draws-{artefact.checksum(settings)[7:19]}")


def test_methods_of_the_library_resume_an_evaluation_of_0_2_0(tmp_path: Path) -> None:
    run(tmp_path)
    as_before_versions(tmp_path)
    rows = run(tmp_path, Counting(), draws=DRAWS + 1)
    assert len(COUNTED) == 1
    assert same_rows(rows, run_study(SmallStudy(), guarantee=GUARANTEE, draws=DRAWS + 1))
    newer = [replace(m, rule=replace(m.rule, version="2")) for m in paper_methods(GUARANTEE)]
    with pytest.raises(ValueError, match="of method 'PS', .* has version 2, and before"):
        run(tmp_path, methods=newer)


def test_methods_of_the_user_in_an_evaluation_of_0_2_0(tmp_path: Path) -> None:
    rows = run(tmp_path, methods=fixed(0.1))
    as_before_versions(tmp_path)
    with pytest.raises(ValueError, match=r"none stored before 0.3.0; pass Method\(..., version="):
        run(tmp_path, methods=fixed(0.1))
    assert same_rows(read_rows(tmp_path), rows)
    run(tmp_path, Counting(), methods=fixed(0.1, version="1"), draws=DRAWS + 1)
    assert len(COUNTED) == 1


def test_draws_of_lost_settings_are_never_reused(tmp_path: Path) -> None:
    run(tmp_path, rng=1)
    (tmp_path / "evaluation.json").unlink()
    rows = run(tmp_path, Counting(), rng=2)
    assert len(COUNTED) == DRAWS
    assert same_rows(rows, run_study(SmallStudy(), guarantee=GUARANTEE, draws=DRAWS, rng=2))


def forge(folder: Path, **changes: Any) -> None:
    """Change the settings and make their checksum right again."""
    path = folder / "evaluation.json"
    document = json.loads(path.read_text()) | changes
    document.pop("checksum")
    path.write_text(json.dumps({**document, "checksum": artefact.checksum(document)}))


def test_edited_settings_are_refused(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / "evaluation.json"
    text = path.read_text()
    bad = [text.replace('"rng": 0', '"rng": 1'), text[:-3], "[]", "", '{"checksum": 1}']
    for changed in bad:
        path.write_text(changed)
        for attempt in (read_rows, run):
            with pytest.raises(
                BadArtefact, match="run the study into another folder|written by run_"
            ):
                attempt(tmp_path)
    path.write_text(text)
    forge(tmp_path, format="something else")
    with pytest.raises(BadArtefact, match="is not a metapac evaluation file. Pass"):
        read_rows(tmp_path)
    forge(tmp_path, format="metapac evaluation", schema=2)
    with pytest.raises(BadArtefact, match=r"has schema 2, written by metapac .* Upgrade metapac."):
        read_rows(tmp_path)


def test_a_folder_without_an_evaluation_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no evaluation is here; pass a folder that") as e:
        read_rows(tmp_path)
    assert e.value.filename == str(tmp_path / "evaluation.json")


@pytest.mark.parametrize("rng", [None, np.random.default_rng(0)])
def test_a_seed_that_cannot_be_stored_is_refused(tmp_path: Path, rng: Any) -> None:
    with pytest.raises(ValueError, match="rng must be a whole number if folder is given, got"):
        run(tmp_path, rng=rng)
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class NotJson(SmallStudy):
    value: Any = np.nan

    def describe(self) -> dict[str, Any]:
        return {"value": self.value}


@pytest.mark.parametrize("value", [np.nan, np.ones(2)])
def test_a_study_must_describe_itself_in_json(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match=r"study.describe\(\) must hold only .* JSON can store"):
        run(tmp_path, NotJson(value=value))
    assert not list(tmp_path.iterdir())


def test_parallel_draws_are_saved_too(tmp_path: Path) -> None:
    rows = run(tmp_path / "one", n_jobs=2, backend="threading")
    assert same_rows(rows, run(tmp_path / "other"))
    assert same_rows(rows, read_rows(tmp_path / "one"))
    assert len(draw_files(tmp_path / "one")) == DRAWS


def test_a_guarantee_with_a_split_is_the_same_evaluation(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, Counting(), guarantee=Guarantee(epsilon=0.3, alpha=0.4, delta=0.2))
    assert not COUNTED
