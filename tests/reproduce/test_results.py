"""The results page says what the stored rows say, and every experiment was run as described."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.compare_original import compare, make_settings, read_outcome
from experiments.results_page import research_code
from experiments.results_page.assemble import anchors, pages
from experiments.results_page.stored import RESULTS, ROOT, Result, read_methods, read_results
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
        assert path.suffix == ".svg"
    folders = [DOCS / "figures" / name for name in EXPERIMENTS]
    files = [*(DOCS / "figures").glob("*.svg"), *(f for each in folders for f in each.glob("*"))]
    assert {*files} == shown


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


# Unlabelled examples


def test_the_how_to_shows_the_stored_results_of_unlabelled_examples() -> None:
    text = (DOCS / "howto" / "unlabelled.md").read_text()
    stored = json.loads((ROOT / "experiments" / "unlabelled.json").read_text())["results"]

    def mean(shots: int, prototypes: str, score: str, field: str = "size") -> float:
        wanted = {"shots": shots, "prototypes": prototypes, "score": score}
        found = [each[field] for each in stored if each.items() >= wanted.items()]
        assert len(found) == 3
        return float(np.mean(found))

    for shots in (5, 1):
        scores = [
            (used, score) for used in ("no", "refined") for score in ("temperature", "offset")
        ]
        sizes = [f"{mean(shots, *each):.2f}" for each in (*scores, ("refined", "oracle"))]
        for i, used in ((0, "no"), (2, "refined")):
            sizes[i] += f" ({mean(shots, used, 'temperature', 'accuracy'):.1%})"
        assert f"| {' | '.join(sizes)} |" in text.replace("**", "").replace("accuracy ", "")
    within = [each["within_interval"][0] for each in stored]
    assert len(within) == 36
    assert min(within) >= 0.9
    assert f"at least {min(within):.1%}" in text
