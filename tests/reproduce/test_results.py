"""The page of results says what the stored rows say."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from metapac.reproduce.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page() -> Any:
    spec = importlib.util.spec_from_file_location("page", ROOT / "experiments" / "page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored(page: Any) -> Any:
    return page.read_results()


def test_page_and_rows_agree(page: Any, stored: Any) -> None:
    written = (ROOT / "docs" / "results.md").read_text()
    assert written == page.page(stored), "run: python experiments/page.py"


def test_every_experiment_was_run_as_it_is_described(page: Any, stored: Any) -> None:
    actual = {result.name: result for result in stored}
    assert set(actual) == set(EXPERIMENTS) - {"glyphs"}
    for name, result in actual.items():
        described = json.loads(json.dumps(EXPERIMENTS[name].describe()))
        assert result.experiment == described == result.settings["study"]["experiment"]
        assert result.settings["draws"] == EXPERIMENTS[name].draws
        assert result.settings["study"]["data"] == result.learner["data"]
        assert len(set(result.rows.draw.tolist())) == 100
        for figure in page.CAPTIONS:
            assert (ROOT / "docs" / "figures" / name / f"{figure}.png").is_file()
            assert (ROOT / "docs" / "figures" / name / f"{figure}.svg").is_file()


def test_a_changed_row_would_be_seen(page: Any, stored: Any) -> None:
    results = copy.deepcopy(stored)
    results[0].rows.size[:50] += 1
    assert page.page(results) != (ROOT / "docs" / "results.md").read_text()
