"""The table of a study fits a terminal of 80 characters."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import Guarantee
from metapac.fewshot import summarise
from metapac.fewshot.cli.study import print_summary
from metapac.fewshot.study.rows import Rows
from tests.helpers.studies import method_rows as table

G = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)


def test_numbers_stand_above_their_intervals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(0)
    parts = [
        table(0.2 * rng.random((9, 20)), 5 * rng.random((9, 20)), method=name, feasible=feasible)
        for name, feasible in (("Meta-PS tight", False), ("PS", True))
    ]
    summary = summarise(Rows.concatenate(parts), G, notes=["a note"])
    print_summary(summary, "a title")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    row = next(i for i, line in enumerate(lines) if line.startswith("Meta-PS tight †"))
    line = summary[0]
    assert lines[row].split()[3:8] == [
        f"{line.size:.2f}", f"{line.error_quantile:.3f}", f"{line.tasks_within:.1%}",
        f"{line.draws_within:.0%}", f"{line.draws_expected:.0%}",
    ]  # fmt: skip
    assert lines[row].endswith(line.verdict)
    low, high = line.error_quantile_interval
    assert f"{low:.3f}-{high:.3f}" in lines[row + 1]
    text = " ".join(lines)
    assert "Needed: 31 tasks of 29 examples for Meta-PS tight." in text
    assert text.rstrip().endswith("a note")


def test_a_single_draw_has_no_interval_of_the_size(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(summarise(table([[0.1, 0.2]], [[2, 3]]), G), "a title")
    assert "inf" not in capsys.readouterr().out
