"""The results page says what the stored rows say, and every experiment was run as described."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import compare_original
from experiments.compare_original import Setting, compare, make_settings, read_outcome
from experiments.results_page import research_code
from experiments.results_page.assemble import anchors, pages
from experiments.results_page.stored import NOTES, RESULTS, ROOT, Result, read_methods, read_results
from metapac import Guarantee, MetaPS
from metapac._common import Array
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, STEP, all_methods, list_controls
from metapac.fewshot.reproduce.run import ACCURACY_TASKS, build_learner
from metapac.fewshot.study.run import read_rows
from metapac.fewshot.training.loop import recipe_for
from tests.helpers.experiments import class_pools

DOCS = ROOT / "docs"
NOT_RUN = {"miniimagenet-resnet12-strong": {"seen"}}


@pytest.fixture(scope="module")
def stored() -> list[Result]:
    return read_results()


@pytest.fixture(scope="module")
def computed(stored: list[Result]) -> dict[Path, str]:
    return pages(stored)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_pages_and_rows_agree(stored: list[Result], computed: dict[Path, str]) -> None:
    for path, text in computed.items():
        assert path.read_text() == text, "run: python experiments/page.py"
    first_page = next(iter(computed))
    assert len(re.findall(r"\S*[A-Za-z0-9]\S*", computed[first_page])) <= 800
    first, *others = stored
    changed = [dict(methods) for methods in first.by_seed]
    rows = changed[-1]["Meta-PS joint", first.delta]
    changed[-1]["Meta-PS joint", first.delta] = replace(rows, size=rows.size + (rows.draw == 7))
    assert pages([replace(first, by_seed=changed), *others])[first_page] != computed[first_page]


def test_every_experiment_was_run_as_it_is_described(stored: list[Result]) -> None:
    assert {result.name for result in stored} == set(EXPERIMENTS) - {"glyphs"}
    for result in stored:
        e = result.experiment
        assert result.seeds == len(result.learners) == e.seeds >= 2
        keys = [(m.name, m.guarantee.failure_probability) for m in all_methods(result.guarantee)]
        parts = zip(result.settings, result.by_seed, result.learners, strict=True)
        for seed, (settings, methods, learner) in enumerate(parts):
            study = settings["study"]
            assert study["experiment"] == learner["experiment"] == as_json(e.describe())
            assert settings["rng"] == learner["rng"] == seed
            assert settings["draws"] == e.draws
            assert (study["weights"], study["data"]) == (learner["weights"], learner["data"])
            assert list(methods) == keys
            for rows in methods.values():
                assert len(np.unique(rows.draw)) == e.draws
                assert len(rows) == e.draws * e.test_tasks
            low, high = learner["accuracy_interval"]
            assert low < learner["accuracy"] < high
            assert learner["accuracy_tasks"] == ACCURACY_TASKS
            if e.training is None:
                backbone = build_learner(e, class_pools()).module.backbone
                assert learner["recipe"] == asdict(recipe_for(backbone))
        assert len({learner["data"] for learner in result.learners}) == 1
        assert len({learner["weights"] for learner in result.learners}) == e.seeds


def test_every_control_shares_the_learner_and_what_it_does_not_vary(stored: list[Result]) -> None:
    """Small tasks meet the test tasks of the experiment; without a shift, its thresholds."""
    for result in stored:
        controls = {control.name: control for control in list_controls(result.experiment)}
        assert set(controls) - set(result.controls) == NOT_RUN.get(result.name, set())
        for name, evaluation in result.controls.items():
            variant = controls[name].experiment
            for settings, learner in zip(evaluation.settings, result.learners, strict=True):
                assert settings["study"]["experiment"] == as_json(variant.describe())
                assert settings["study"]["weights"] == learner["weights"]
                assert settings["draws"] == variant.draws
            if name == "seen":
                continue
            method = "Meta-PS even" if name == "no-shift" else "oracle"
            for ours, theirs in zip(evaluation.rows(method), result.rows(method), strict=True):
                same = theirs.take(theirs.draw < evaluation.draws)
                np.testing.assert_array_equal(ours.threshold, same.threshold)


def test_arrow_reads_the_rows_that_the_library_reads() -> None:
    folder = RESULTS / "heart-distinct" / "seed-0"
    methods, rows = read_methods(folder / "rows.csv.gz"), read_rows(folder)
    assert list(methods) == rows.methods()
    for (name, delta), part in methods.items():
        for column, values in vars(rows.select(name, delta)).items():
            np.testing.assert_array_equal(vars(part)[column], values)


def test_every_figure_of_the_pages_is_there_and_none_is_left_over(
    computed: dict[Path, str],
) -> None:
    shown = set()
    for page, text in computed.items():
        found = re.findall(r"!\[(.{40,}?)\]\((.*?)\)", text)
        assert len(found) == text.count("![")  # each has an alternative text
        shown |= {(page.parent / path).resolve() for _, path in found}
        assert len(anchors(text)) == len(set(anchors(text)))
    for path in shown:
        assert path.read_bytes().startswith(b"\x89PNG")
    folders = [DOCS / "figures" / name for name in EXPERIMENTS]
    files = [*(DOCS / "figures").glob("*.png"), *(f for each in folders for f in each.glob("*"))]
    assert {*files} == shown


ALLOWED = r"1 - (alpha|delta|epsilon)|\b20\d\d\b|^\+?\.\d[%fg]$|^#[0-9a-f]{6}$"


def test_no_number_of_the_page_is_typed_by_hand() -> None:
    """Strings hold no digits but those of formulas, years, formats and colours."""
    for path in (ROOT / "experiments/results_page").glob("*.py"):
        for text in written_strings(ast.parse(path.read_text())):
            assert not re.search(r"\d", re.sub(ALLOWED, "", text)), text


def written_strings(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module, without docstrings and format specifications."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            skipped |= {id(part) for part in ast.walk(node.format_spec)}
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield str(node.value) if isinstance(node.value, str) else ""


def test_published_accuracies_are_plausible_and_have_a_source() -> None:
    assert NOTES.keys() == EXPERIMENTS.keys() - {"glyphs"}
    published = [each for notes in NOTES.values() for each in notes.get("published", ())]
    assert len(published) == 11
    for each in published:
        assert 0.5 < each["accuracy"] < 1
        assert each["learner"]
        assert re.search(r"\b(19|20)\d\d\b|github\.com/", each["source"])


# The published research code


def test_the_grid_of_the_research_code_is_within_its_step_in_every_draw(
    stored: list[Result],
) -> None:
    for result in stored:
        assert research_code.compare(result).largest <= STEP * (1 + 1e-6)


def test_the_research_code_was_run_on_the_scores_that_we_make() -> None:
    step, outcome = read_outcome()
    settings = list(make_settings())
    assert len(outcome) == len(settings) == 5
    for found, setting in zip(outcome, settings, strict=True):
        again = compare(setting, lambda *_, found=found: found.original, step)
        assert asdict(again) == asdict(found) | {"even": pytest.approx(found.even, rel=1e-6)}
        assert again.equal


def search_up(scores: Array, g: Guarantee, step: float) -> float:
    """Stand-in for the research code: our even split, then the grid from zero upwards."""
    exact = MetaPS(epsilon=g.epsilon, alpha=g.alpha, delta=g.delta, split="even")
    exact.calibrate(scores.ravel(), np.arange(len(scores)).repeat(scores.shape[1]))
    cut = 0.0
    while cut + step <= exact.threshold_:
        cut += step
    return cut


def test_a_threshold_on_another_step_of_the_grid_is_found(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = np.random.default_rng(0).uniform(0.2, 1, size=(40, 60))
    setting = Setting("uniform", scores, Guarantee(epsilon=0.2, alpha=0.2, delta=0.05))
    assert compare(setting, search_up).equal
    assert compare(setting, search_up, step=1e-3).equal
    for shift in (-1e-4, 1e-4):
        assert not compare(setting, lambda *given, by=shift: search_up(*given) + by).equal
    (tmp_path / compare_original.SOURCE).parent.mkdir()
    (tmp_path / compare_original.SOURCE).touch()
    monkeypatch.setattr(compare_original, "STORED", tmp_path / "original.json")
    monkeypatch.setattr(compare_original, "make_settings", lambda: iter([setting]))
    for shift, status, word in ((0.0, 0, "yes"), (1e-4, 1, "NO")):
        monkeypatch.setattr(
            compare_original,
            "load_constructor",
            lambda path, by=shift: lambda *given: search_up(*given) + by,
        )
        assert compare_original.main([str(tmp_path)]) == status
        assert word in capsys.readouterr().out
        assert [each.equal for each in read_outcome()[1]] == [not status]
