"""The page of results says what the stored rows say, and every experiment was run as described."""

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

from experiments.results_page import research_code
from experiments.results_page.assemble import page
from experiments.results_page.markdown import anchor
from experiments.results_page.stored import RESULTS, ROOT, Result, read_methods, read_results
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, STEP, all_methods, list_controls
from metapac.fewshot.reproduce.seed import ACCURACY_TASKS, build_backbone
from metapac.fewshot.study.run import read_rows
from metapac.fewshot.training.strong import recipe_for
from tests.helpers.experiments import class_pools

DOCS = ROOT / "docs"
WRITTEN = DOCS / "results.md"
NOT_RUN = {"miniimagenet-resnet12-strong": {"seen"}}


@pytest.fixture(scope="module")
def stored() -> list[Result]:
    return read_results()


@pytest.fixture(scope="module")
def computed(stored: list[Result]) -> str:
    return page(stored)


def test_page_and_rows_agree(computed: str) -> None:
    assert WRITTEN.read_text() == computed, "run: python experiments/page.py"


def test_every_experiment_has_its_seeds_and_draws(stored: list[Result]) -> None:
    assert {result.name for result in stored} == set(EXPERIMENTS) - {"glyphs"}
    for result in stored:
        assert result.seeds == len(result.learners) == result.experiment.seeds >= 2
        assert result.seeds * result.experiment.draws >= 100  # as many as in the paper
        pairs = zip(result.settings, result.by_seed, strict=True)
        for seed, (settings, methods) in enumerate(pairs):
            assert settings["rng"] == result.learners[seed]["rng"] == seed
            assert settings["draws"] == result.experiment.draws
            for rows in methods.values():
                assert len(np.unique(rows.draw)) == result.experiment.draws
                assert len(rows) == result.experiment.draws * result.experiment.test_tasks


def test_every_experiment_has_all_methods(stored: list[Result]) -> None:
    for result in stored:
        methods = all_methods(result.guarantee)
        keys = [(each.name, each.guarantee.failure_probability) for each in methods]
        assert [list(by_method) for by_method in result.by_seed] == [keys] * result.seeds


def test_every_experiment_was_run_as_it_is_described(stored: list[Result]) -> None:
    for result in stored:
        described = as_json(result.experiment.describe())
        for settings, learner in zip(result.settings, result.learners, strict=True):
            assert settings["study"]["experiment"] == learner["experiment"] == described


def test_every_strong_learner_was_trained_by_the_recipe_in_use(stored: list[Result]) -> None:
    strong = [result for result in stored if result.experiment.training is None]
    assert {result.name.removesuffix("-strong") for result in strong} == {
        "miniimagenet-conv4",
        "miniimagenet-resnet12",
    }
    for result in strong:
        recipe = recipe_for(build_backbone(result.experiment, class_pools()))
        assert all(learner["recipe"] == asdict(recipe) for learner in result.learners)


def test_every_control_was_run_with_the_learners_of_the_experiment(stored: list[Result]) -> None:
    for result in stored:
        controls = {control.name: control for control in list_controls(result.experiment)}
        assert set(controls) - set(result.controls) == NOT_RUN.get(result.name, set())
        for name, evaluation in result.controls.items():
            described = as_json(controls[name].experiment.describe())
            for settings, learner in zip(evaluation.settings, result.learners, strict=True):
                assert settings["study"]["experiment"] == described
                assert settings["study"]["weights"] == learner["weights"]
                assert settings["draws"] == controls[name].experiment.draws


def test_controls_share_what_they_do_not_vary(stored: list[Result]) -> None:
    """Small tasks meet the test tasks of the experiment; without a shift, its thresholds."""
    for result in stored:
        for name, control in result.controls.items():
            method = {"no-shift": "Meta-PS even"}.get(name, "oracle")
            if name == "seen":
                continue
            for ours, theirs in zip(control.rows(method), result.rows(method), strict=True):
                same = theirs.take(theirs.draw < control.draws)
                np.testing.assert_array_equal(ours.threshold, same.threshold)


def test_the_weights_of_every_seed_have_a_checksum(stored: list[Result]) -> None:
    weights = [learner["weights"] for result in stored for learner in result.learners]
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", checksum) for checksum in weights)
    assert len(set(weights)) == len(weights)
    for result in stored:
        assert len({learner["data"] for learner in result.learners}) == 1
        for settings, learner in zip(result.settings, result.learners, strict=True):
            assert settings["study"]["weights"] == learner["weights"]
            assert settings["study"]["data"] == learner["data"]


def test_the_accuracy_of_every_seed_is_measured_on_many_tasks(stored: list[Result]) -> None:
    for result in stored:
        for learner in result.learners:
            low, high = learner["accuracy_interval"]
            assert low < learner["accuracy"] < high
            assert learner["accuracy_tasks"] == ACCURACY_TASKS


def test_the_grid_of_the_research_code_is_within_its_step_in_every_draw(
    stored: list[Result],
) -> None:
    for result in stored:
        assert research_code.compare(result).largest <= STEP * (1 + 1e-6)


def test_a_changed_row_would_be_seen(stored: list[Result], computed: str) -> None:
    first, *others = stored
    changed = [dict(methods) for methods in first.by_seed]
    rows = changed[-1]["Meta-PS joint", first.delta]
    changed[-1]["Meta-PS joint", first.delta] = replace(rows, size=rows.size + (rows.draw == 7))
    assert page([replace(first, by_seed=changed), *others]) != computed


def test_arrow_reads_the_rows_that_the_library_reads() -> None:
    folder = RESULTS / "heart-distinct" / "seed-0"
    methods, rows = read_methods(folder / "rows.csv.gz"), read_rows(folder)
    assert list(methods) == rows.methods()
    for (name, delta), part in methods.items():
        for column, values in vars(rows.select(name, delta)).items():
            np.testing.assert_array_equal(vars(part)[column], values)


def test_every_figure_is_shown_with_its_alternative_text(computed: str) -> None:
    shown = dict.fromkeys(path for _, path in re.findall(r"!\[(.{40,}?)\]\((.*?)\)", computed))
    assert len(shown) == computed.count("![")
    for path in shown:
        assert (DOCS / path).read_bytes().startswith(b"\x89PNG")
    folders = [DOCS / "figures" / name for name in EXPERIMENTS]
    files = [*(DOCS / "figures").glob("*.png"), *(f for each in folders for f in each.glob("*"))]
    assert {str(path.relative_to(DOCS)) for path in files} == set(shown)


def test_every_link_within_the_page_leads_somewhere(computed: str) -> None:
    headings = {anchor(title) for title in re.findall(r"^#+ (.*)$", computed, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(.*?)\)", computed)) <= headings
    assert len(headings) == len(re.findall(r"^#+ ", computed, re.MULTILINE))


ALLOWED = r"1 - (alpha|delta|epsilon)|\b20\d\d\b|^\+?\.\d[%fg]$|^#[0-9a-f]{6}$"


@pytest.mark.parametrize("path", sorted((ROOT / "experiments/results_page").glob("*.py")), ids=str)
def test_no_number_of_the_page_is_typed_by_hand(path: Path) -> None:
    """Strings hold no digits but those of formulas, years, formats and colours."""
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


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
