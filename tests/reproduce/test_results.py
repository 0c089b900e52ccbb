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
from experiments.results_page import research_code, sampling_noise, sections
from experiments.results_page.assemble import anchors, pages
from experiments.results_page.splits import JOINT
from experiments.results_page.stored import (
    RESULTS,
    ROOT,
    Result,
    find_tasks,
    read_methods,
    read_results,
)
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, STEP, all_methods, list_controls
from metapac.fewshot.reproduce.run import ACCURACY_TASKS, build_learner
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import read_rows
from metapac.fewshot.training.loop import recipe_for
from tests.helpers.experiments import class_pools
from tests.helpers.studies import method_rows

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


def test_every_figure_of_the_pages_is_there_and_no_other(computed: dict[Path, str]) -> None:
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


def test_the_grid_of_the_research_code_is_within_its_step(stored: list[Result]) -> None:
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
    text = (DOCS / "howto" / "unlabelled.md").read_text().replace("**", "")
    stored = json.loads((ROOT / "experiments" / "unlabelled.json").read_text())["results"]

    def mean(data: str, shots: int, used: str, score: str, field: str = "size") -> float:
        wanted = {"learner": "prototypes", "shots": shots, "unlabelled": used, "score": score}
        of_data = [each for each in stored if each["source"].startswith(data)]
        found = [each[field] for each in of_data if each.items() >= wanted.items()]
        assert len(found) == 3
        return float(np.mean(found))

    names = {"resnet12": "mini-ImageNet", "fewrel": "FewRel"}
    for data, shots in [(data, shots) for data in names for shots in (5, 1)]:
        cells = [f"{names[data]}, {shots} shot{'s' * (shots > 1)}"]
        for used in ("no", "refined"):
            plain, offset = (mean(data, shots, used, each) for each in ("temperature", "offset"))
            accuracy = mean(data, shots, used, "temperature", "accuracy")
            cells += [f"{plain:.2f} ({accuracy:.1%})", f"{offset:.2f}"]
        cells += [f"{mean(data, shots, 'refined', 'oracle'):.2f}"]
        assert f"| {' | '.join(cells)} |" in text
        within = [
            (each["within"], each["within_interval"][0])
            for each in stored
            if each["source"].startswith(data) and each["learner"] == "prototypes"
        ]
        assert len(within) == 36
        least, low = map(min, zip(*within, strict=True))
        assert f"at least {least:.1%} of the new tasks had a miss rate of at most 10%" in text
        assert f"({low:.1%} to" in text or f"from {low:.1%})" in text


def test_guesses_did_not_help_heads_as_the_how_to_says() -> None:
    stored = json.loads((ROOT / "experiments" / "unlabelled.json").read_text())["results"]
    found: dict[Any, list[float]] = {}
    for each in stored:
        if each["learner"] != "prototypes" and each["score"] == "temperature":
            key = each["source"], each["learner"], each["shots"]
            found.setdefault(key, []).append(each["size"])
    assert len(found) == 8
    larger = sum(guessed > plain for plain, guessed in found.values())
    text = (DOCS / "howto" / "unlabelled.md").read_text()
    assert larger == 6
    assert "larger in six of eight settings" in " ".join(text.split())
    assert min(guessed / plain for plain, guessed in found.values()) > 0.99


# What the page would say of other results

LOW, HIGH = 0.05, 0.3  # errors, with epsilon 0.1


def make_rows(key: tuple[str, float], seed: int) -> Rows:
    """Rows of 4 draws of 20 tasks, all with one error, size and threshold."""
    sizes = np.full((4, 20), 2.0 + seed / 100)
    rows = method_rows(np.full((4, 20), LOW), sizes, method=key[0], delta=key[1], examples=500)
    return replace(rows, threshold=np.full(len(rows), 0.4))


def make_result(name: str = "miniimagenet", seeds: int = 3) -> Result:
    g = EXPERIMENTS[name].guarantee
    keys = [(each.name, each.guarantee.failure_probability) for each in all_methods(g)]
    pools = {"test": [18, 1000], "calibration": [40, 1000]}
    facts = {"accuracy": 0.7, "pools": pools, "epochs": 9, "best_epoch": 5}
    return Result(
        g,
        [{"draws": 4}] * seeds,
        [{key: make_rows(key, seed) for key in keys} for seed in range(seeds)],
        experiment=EXPERIMENTS[name],
        learners=[{**facts, "rng": seed} for seed in range(seeds)],
        controls={},
    )


# Tasks that draws share


def bank_result(method: str, *above: int) -> Result:
    """Two seeds whose draws all have the same 20 tasks, of which some are above epsilon."""
    result = make_result("cifar10c", seeds=2)
    for methods, count in zip(result.by_seed, above, strict=True):
        rows, oracle = methods[method, result.delta], methods["oracle", result.delta]
        methods[method, result.delta] = replace(rows, error=np.where(rows.task < count, HIGH, LOW))
        methods["oracle", result.delta] = replace(oracle, threshold=oracle.task / 20)
    result.tasks = [find_tasks(methods["oracle", result.delta]) for methods in result.by_seed]
    return result


def test_a_task_of_many_draws_counts_once() -> None:
    sure, unsure = bank_result("PS", 12, 12), bank_result("PS", 6, 6)
    repeated = [replace(result, tasks=None).line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in repeated] == ["violated", "violated"]
    # 6 of 20 tasks: mean 0.3, Student's t with 19 degrees of freedom gives a lower end of 0.08.
    lines = [result.line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in lines] == ["violated", "cannot tell yet"]
    assert lines[1] == replace(repeated[1], violated=False)  # and nothing else is changed
    first = unsure.first_draws(3)
    assert (first.draws, first.seeds) == (3, 2)
    assert first.line("PS").verdict == "cannot tell yet"
    for tasks, oracle in zip(first.tasks or (), first.rows("oracle"), strict=True):
        np.testing.assert_array_equal(tasks / 20, oracle.threshold)
    assert make_result().first_draws(2).tasks is None


def test_a_verdict_on_shared_tasks_needs_every_seed() -> None:
    result = bank_result(JOINT, 2, 0)
    result.tasks = [np.arange(80)] * 2  # as many tasks as rows
    pooled, line = replace(result, tasks=None).line(JOINT), result.line(JOINT)
    assert (pooled.tasks_within, pooled.verdict) == (0.95, "observed within")
    assert (line.tasks_within, line.verdict) == (0.95, "cannot tell yet")
    text = sections.experiment_section(result)
    assert "Meta-PS joint (95.0% within: 90.0% and 100.0% in the seeds)." in text


# Sampling noise


def noisy_rows(rates: Any, examples: int) -> Rows:
    counted = np.random.default_rng(0).binomial(examples, rates, (40, 50)) / examples
    return method_rows(counted, examples=examples)


def test_noise_is_removed_and_the_spread_of_miss_rates_is_kept() -> None:
    rows = noisy_rows(0.097, 500)
    assert np.quantile(rows.error, 0.9) > 0.11  # although no task is above epsilon
    shrunk = sampling_noise.remove_noise(rows)
    assert shrunk.mean() == pytest.approx(rows.error.mean())
    # The variance left is an error of estimation: its standard deviation is that of the variance
    # of 2000 binomial shares, 0.097 * 0.903 / 500 * sqrt(2 / 2000); five of them are allowed.
    assert shrunk.var() <= 5 * 0.097 * 0.903 / 500 * np.sqrt(2 / 2000)
    shrunk = sampling_noise.remove_noise(noisy_rows(np.where(np.arange(50) < 25, 0.05, 0.25), 20))
    assert np.sqrt(shrunk.var()) == pytest.approx(0.1, abs=0.01)
    exact = method_rows(np.full((2, 5), 0.1), examples=500)
    np.testing.assert_allclose(sampling_noise.remove_noise(exact), 0.1)
