"""Running studies: the same rows however draws are distributed, stored, killed and resumed."""

from __future__ import annotations

import gzip
import json
import math
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

import metapac
from metapac import BadArtefact, Guarantee, artefact
from metapac.fewshot import Method, Rule, paper_methods, run_seeds, run_study, summarise
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import PS, Chosen
from metapac.fewshot.study.rows import Rows, evaluate_draw, read_table, write_table
from metapac.fewshot.study.run import find_seeds, read_guarantee, read_rows, read_settings
from metapac.fewshot.study.summary import Summary
from tests.helpers.refusals import assert_refused
from tests.helpers.studies import GUARANTEE, SmallStudy, read_seeds, same_rows

DRAWS = 4
COUNTED: list[int] = []


@dataclass(frozen=True)
class Counting(SmallStudy):
    """A study that counts its draws; it describes itself as the one that does not."""

    seed: int = 0
    notes = ("a note",)

    def draw(self, rng: np.random.Generator) -> Draw:
        COUNTED.append(self.seed)
        return super().draw(rng)

    def describe(self) -> dict[str, Any]:
        return SmallStudy().describe()


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    COUNTED.clear()


def run(folder: Path | None = None, study: Any = None, **changes: Any) -> Rows:
    settings: dict[str, Any] = {"guarantee": GUARANTEE, "draws": DRAWS, "folder": folder}
    return run_study(study or SmallStudy(), **(settings | changes))


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.*")}


def draw_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("draws-*/[0-9]*.csv.gz"))


def test_draw_i_is_the_same_alone_and_in_a_batch() -> None:
    five = run(draws=5, rng=3)
    assert same_rows(five.take(five.draw < 2), run(draws=2, rng=3))
    for i, seed in enumerate(np.random.SeedSequence(3).spawn(5)):
        draw = SmallStudy().draw(np.random.default_rng(seed))
        alone = evaluate_draw(i, draw, paper_methods(GUARANTEE))
        assert same_rows(five.take(five.draw == i), alone)
    assert len({*five.select("PS").threshold.tolist()}) == 5
    assert not np.array_equal(run(draws=5, rng=4).threshold, five.threshold)


def test_a_generator_or_no_seed_will_do() -> None:
    one, two = (run(rng=np.random.default_rng(5)) for _ in range(2))
    assert same_rows(one, two)
    shared = np.random.default_rng(5)
    first, second = (run(rng=shared) for _ in range(2))
    assert same_rows(first, one)
    assert not same_rows(second, one)
    seed = np.random.default_rng(5).spawn(1)[0].bit_generator.seed_seq.spawn(2)[1]  # type: ignore[attr-defined]
    draw = SmallStudy().draw(np.random.default_rng(seed))
    alone = evaluate_draw(1, draw, paper_methods(GUARANTEE))
    assert same_rows(one.take(one.draw == 1), alone)
    assert not same_rows(*(run(rng=None) for _ in range(2)))


@dataclass(frozen=True)
class Failing(SmallStudy):
    """A study whose second draw fails."""

    def draw(self, rng: np.random.Generator) -> Draw:
        if rng.bit_generator.seed_seq.spawn_key == (1,):  # type: ignore[attr-defined]
            raise RuntimeError("no data")
        return super().draw(rng)


def test_a_draw_that_fails_is_named_and_progress_counts_the_others() -> None:
    calls: list[tuple[Any, ...]] = []
    with pytest.raises(RuntimeError, match="no data") as caught:
        run(study=Failing(), progress=lambda *call: calls.append(call))
    assert caught.value.__notes__ == ["This was draw 1."]
    assert calls == [("draws", 1, DRAWS)]


def process_id(draw: Draw, g: Guarantee) -> Chosen:
    """Not a method: its thresholds say which process chose them."""
    return Chosen(np.full(len(draw.tests), os.getpid()), np.ones(len(draw.tests), dtype=bool))


WITH_PROCESS = (*paper_methods(GUARANTEE), Method("process", Rule(process_id, str), GUARANTEE))


def run_in_processes(study: Any = None, **options: Any) -> tuple[Rows, set[int]]:
    """Return the rows of five draws, and the processes that drew them."""
    rows = run(study=study, methods=WITH_PROCESS, draws=5, **options)
    return rows.take(rows.method != "process"), {*rows.select("process").threshold.tolist()}


@dataclass(frozen=True)
class Threaded(SmallStudy):
    """A study whose draws would rather share memory."""

    preferred_backend = "threading"


def test_the_rows_are_the_same_from_workers() -> None:
    alone = run(draws=5)
    for study, backend, is_here in (
        (None, None, False),
        (None, "multiprocessing", False),
        (Threaded(), None, True),
        (Threaded(), "loky", False),
    ):
        done: list[int] = []
        result, processes = run_in_processes(
            study,
            n_jobs=2,
            backend=backend,
            progress=lambda _, count, __, done=done: done.append(count),
        )
        assert same_rows(result, alone)
        assert done == [1, 2, 3, 4, 5]
        assert (processes == {os.getpid()}) == is_here


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


SENT: list[int] = []


@dataclass(frozen=True)
class Sent(SmallStudy):
    """A study that knows how often it was sent away."""

    def __getstate__(self) -> dict[str, Any]:
        SENT.append(1)
        return self.__dict__


def test_a_dask_cluster_is_sent_the_study_once(cluster: Any) -> None:
    result, processes = run_in_processes(n_jobs=-1, backend="dask")
    assert same_rows(result, run(draws=5))
    assert processes <= {*cluster.run(os.getpid).values()}
    counts = []
    for draws in (2, 6):
        SENT.clear()
        run(study=Sent(), draws=draws, n_jobs=-1, backend="dask")
        counts.append(len(SENT))
    assert counts[0] == counts[1] > 0


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    bad: list[tuple[str, dict[str, Any]]] = [
        ("draws", {"draws": 0}),
        ("n_jobs", {"n_jobs": 0}),
        ("n_jobs", {"n_jobs": True}),
        ("methods", {"methods": ()}),
        ("methods", {"methods": [Method("PS", PS, GUARANTEE)] * 2}),
        ("methods", {"methods": [process_id]}),
        ("rng folder", {"rng": None, "folder": tmp_path}),
        ("rng", {"rng": np.random.default_rng(0), "folder": tmp_path}),
        ("study.describe()", {"study": SmallStudy(tasks=math.nan), "folder": tmp_path}),  # type: ignore[arg-type]
    ]
    for words, changes in bad:
        assert_refused(words, run, **changes)
    with pytest.raises(ValueError, match="abacus"):
        run(backend="abacus")
    assert not list(tmp_path.iterdir())
    rows = run(methods=paper_methods(GUARANTEE, second_delta=0.1))
    assert [{*rows.select("Meta-CP", delta).delta} for delta in (None, 0.1)] == [{0.2}, {0.1}]
    assert_refused("'PSS' PS at delta=0.2", rows.select, "PSS")
    assert_refused("'PS' at delta=0.3", rows.select, "PS", 0.3)


def test_what_was_written_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    rows = run(tmp_path / "a", SmallStudy(labelled=3))
    assert (rows.select("PS-Test").threshold == -np.inf).all()
    assert not rows.select("PS-Test").feasible.any()
    result = read_rows(tmp_path / "a")
    assert same_rows(rows, result)
    kinds = {name: column.dtype.kind for name, column in vars(result).items()}
    assert "".join(kinds.values()) == "iUfifbffii"
    assert list(pd.read_csv(tmp_path / "a" / "rows.csv.gz")) == [*kinds]
    assert ({*rows.examples.tolist()}, {*rows.labels.tolist()}) == ({20}, {3})
    assert read_guarantee(tmp_path / "a") == GUARANTEE
    run(tmp_path / "b", SmallStudy(labelled=3), n_jobs=2, backend="threading")
    one, other = (files(tmp_path / name) for name in "ab")
    assert [*one.values()] == [*other.values()]
    assert len(draw_files(tmp_path / "b")) == DRAWS
    odd = replace(rows, method=np.where(rows.task == 0, 'a, "b"\n\N{SNOWMAN}', rows.method))
    write_table(tmp_path / "odd.csv.gz", odd)
    assert same_rows(read_table(tmp_path / "odd.csv.gz"), odd)


def test_damage_is_noticed_and_other_tables_are_refused(tmp_path: Path) -> None:
    rows = run(tmp_path)
    path = draw_files(tmp_path)[1]
    whole = path.read_bytes()
    head = "draw,method,delta,task,threshold,feasible,error,size\n"
    bad = [whole[:end] for end in range(0, len(whole), 7)]
    # The first ten bytes are gzip's header, which we do not check.
    for i in range(10, len(whole), 7):
        bad.append(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
    bad += [gzip.compress(text.encode()) for text in ("draw,method\n0,PS\n", "no table", "", head)]
    for content in bad:
        path.write_bytes(content)
        with pytest.raises(BadArtefact, match="run_study"):
            read_table(path)
    assert same_rows(run(tmp_path, Counting()), rows)  # the damaged draw is drawn again
    assert len(COUNTED) == 1
    assert path.read_bytes() == whole


def test_a_table_from_before_the_last_columns_is_read(tmp_path: Path) -> None:
    rows = run(tmp_path)
    path = tmp_path / "rows.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    for missing in (["labels"], ["examples", "labels"]):
        old = "\n".join(line.rsplit(",", len(missing))[0] for line in lines) + "\n"
        path.write_bytes(gzip.compress(old.encode()))
        unknown: dict[str, Any] = dict.fromkeys(missing, np.zeros(len(rows), np.int64))
        assert same_rows(read_rows(tmp_path), replace(rows, **unknown))


def test_the_settings_say_all_that_the_rows_depend_on(tmp_path: Path) -> None:
    assert same_rows(run(tmp_path, rng=7), run(rng=7))
    result = read_settings(tmp_path)
    assert (result["draws"], result["rng"]) == (DRAWS, 7)
    versions = {"metapac": metapac.__version__, "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "python": platform.python_version()}
    assert result["versions"] == versions
    assert result["methods"][3] == {
        "name": "Meta-PS even", "rule": "meta_ps", "version": "1",
        "epsilon": 0.3, "alpha": 0.4, "delta": 0.2, "split": "even",
    }  # fmt: skip


def test_finished_draws_are_not_repeated_and_more_extend_them(tmp_path: Path) -> None:
    rows = run(tmp_path, Counting())
    (tmp_path / "rows.csv.gz").unlink()
    draw_files(tmp_path)[2].unlink()
    calls: list[tuple[Any, ...]] = []
    again = run(tmp_path, Counting(), progress=lambda *call: calls.append(call))
    assert same_rows(again, rows)
    assert len(COUNTED) == DRAWS + 1
    assert calls == [("draws", DRAWS, DRAWS)]
    more = run(tmp_path, Counting(), draws=DRAWS + 2)
    assert len(COUNTED) == DRAWS + 3
    assert same_rows(more, run(draws=DRAWS + 2))
    assert read_settings(tmp_path)["draws"] == DRAWS + 2
    before = files(tmp_path)
    assert_refused("draws=4", run, tmp_path)  # a finished table loses no draws
    assert files(tmp_path) == before
    (tmp_path / "rows.csv.gz").unlink()  # an evaluation that has not ended may end sooner
    assert same_rows(run(tmp_path, Counting()), rows)
    assert len(COUNTED) == DRAWS + 3


def fixed(cut: float, **version: str) -> list[Method]:
    """A method of the user, whose threshold is written in its body."""
    names: dict[str, Any] = {}
    exec(f"def mine(draw, g):\n    return {cut}", names)
    return [Method("mine", names["mine"], GUARANTEE, **version)]


def test_another_evaluation_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path)
    before = files(tmp_path)
    for words, changes in (
        ("rng=0 rng=1", {"rng": 1}),
        ("guarantee.epsilon=0.25", {"guarantee": replace(GUARANTEE, epsilon=0.25)}),
        ("study.tests=4 study.tests=5", {"study": SmallStudy(tests=5)}),
        ("methods=", {"methods": paper_methods(GUARANTEE)[:3]}),
    ):
        assert_refused(words, run, tmp_path, **changes)
    monkeypatch.setattr(np, "__version__", "9.9")
    assert_refused("versions.numpy='9.9'", run, tmp_path)
    assert files(tmp_path) == before


def test_a_rule_that_changed_is_refused_and_never_mixed(tmp_path: Path) -> None:
    run(tmp_path, methods=fixed(0.1))
    before = files(tmp_path)
    for draws in (DRAWS, DRAWS + 2):
        assert_refused("'mine' version", run, tmp_path, methods=fixed(5.0), draws=draws)
    assert files(tmp_path) == before
    rows = run(tmp_path, Counting(), methods=fixed(0.1), draws=DRAWS + 2)
    assert {*rows.threshold.tolist()} == {0.1}
    assert len(COUNTED) == 2


def test_a_version_replaces_the_code(tmp_path: Path) -> None:
    run(tmp_path, methods=fixed(0.1, version="1"))
    run(tmp_path, Counting(), methods=fixed(0.1 + 1e-9, version="1"))
    assert not COUNTED
    assert_refused("version 2 1", run, tmp_path, methods=fixed(0.1, version="2"))
    chosen = (cut for cut in [0.1])
    method = Method("mine", lambda draw, g: next(chosen), GUARANTEE)
    assert_refused("'mine' version=", run, tmp_path / "new", methods=[method])
    assert not (tmp_path / "new").exists()


def forge(folder: Path, **changes: Any) -> None:
    """Change the settings and make their checksum right again."""
    path = folder / "evaluation.json"
    document = json.loads(path.read_text()) | changes
    document.pop("checksum")
    path.write_text(json.dumps({**document, "checksum": artefact.checksum(document)}))


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


def test_evaluations_of_0_2_0_are_resumed(tmp_path: Path) -> None:
    run(tmp_path / "ours")
    as_before_versions(tmp_path / "ours")
    rows = run(tmp_path / "ours", Counting(), draws=DRAWS + 1)
    assert len(COUNTED) == 1
    assert same_rows(rows, run(draws=DRAWS + 1))
    newer = [replace(m, rule=replace(m.rule, version="2")) for m in paper_methods(GUARANTEE)]
    assert_refused("'PS' version 2", run, tmp_path / "ours", methods=newer)
    run(tmp_path / "mine", methods=fixed(0.1))
    as_before_versions(tmp_path / "mine")
    assert_refused("version=", run, tmp_path / "mine", methods=fixed(0.1))
    run(tmp_path / "mine", Counting(), methods=fixed(0.1, version="1"), draws=DRAWS + 1)
    assert len(COUNTED) == 2


def test_draws_of_lost_settings_are_never_reused(tmp_path: Path) -> None:
    run(tmp_path, rng=1)
    (tmp_path / "evaluation.json").unlink()
    assert same_rows(run(tmp_path, rng=2), run(rng=2))


MADE: list[int] = []


def make(seed: int) -> Counting:
    MADE.append(seed)
    return Counting(seed=seed)


def seeds(folder: Path | None = None, **options: Any) -> Summary:
    MADE.clear()
    return run_seeds(make, guarantee=GUARANTEE, folder=folder, **({"draws": 3} | options))


def same(one: Summary, other: Summary) -> bool:
    pairs = zip(one.rows, other.rows, strict=True)
    return one.lines == other.lines and all(same_rows(*pair) for pair in pairs)


def test_each_seed_has_its_own_study_and_its_own_draws() -> None:
    calls: list[str] = []
    summary = seeds(seeds=3, rng=5, progress=lambda stage, *_: calls.append(stage))
    assert MADE == [5, 6, 7]
    for seed, rows in zip(MADE, summary.rows, strict=True):
        assert same_rows(rows, run(rng=seed, draws=3))
    assert summary.lines == summarise(summary.rows, GUARANTEE).lines
    assert not np.array_equal(summary.rows[0].threshold, summary.rows[1].threshold)
    assert summary.notes == ("a note",)
    assert calls[:2] == ["seed 5: making the study", "seed 5: draws"]


def test_a_folder_of_seeds_is_extended_resumed_and_loses_nothing(tmp_path: Path) -> None:
    assert same(seeds(tmp_path, seeds=2), read_seeds(tmp_path))
    COUNTED.clear()
    assert same(seeds(tmp_path, seeds=3), seeds(seeds=3))
    assert COUNTED[:3] == [2, 2, 2]
    COUNTED.clear()

    def stop(stage: str, done: int, total: int | None) -> None:
        if stage == "seed 1: draws":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seeds(tmp_path, seeds=3, draws=4, progress=stop)
    assert same(seeds(tmp_path, seeds=3, draws=4), read_seeds(tmp_path))
    assert COUNTED == [0, 1, 2]
    assert_refused("seed 2 seeds=3", seeds, tmp_path, seeds=2, draws=4)
    assert_refused("seed 0 rng=0 seeds=4", seeds, tmp_path, seeds=3, rng=1, draws=4)
    assert_refused("draws=4", seeds, tmp_path, seeds=3, draws=1)
    for name in ("seed-x", "seed-", "seed-1.old", "seed--1"):
        shutil.copytree(tmp_path / "seed-1", tmp_path / name)
    (tmp_path / "seed-7").mkdir()  # nothing has begun there
    assert find_seeds(tmp_path) == [0, 1, 2]
    assert_refused("seeds", seeds, seeds=0)
    assert_refused("rng", seeds, rng=-1)
    assert not MADE
