"""``metapac demo``: the tables, the files, and the same results for the same seed."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from tests.helpers.commands import metapac

ROOT = Path(__file__).parent.parent.parent
METHODS = ("PS", "PS-Test", "Meta-PS even", "Meta-PS joint")


def test_synthetic_demo(tmp_path: Path) -> None:
    result = metapac("demo", "--data", "synthetic", "--draws", 3, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "labelled examples of the new task itself and needs 110, so it keeps every label" in text
    rows = [line.split("│")[1:-1] for line in result.output.splitlines()]
    guarantee = {row[0].strip(): row[-1].strip() for row in rows if len(row) == 5}
    verdicts = ("violated", "too few data", "observed within", "observed within")
    assert guarantee == dict(zip(METHODS, verdicts, strict=True))
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out" / "demo.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == 3 * 4 * 50
    sizes = {m: np.mean([float(r["size"]) for r in written if r["method"] == m]) for m in METHODS}
    assert sizes["PS-Test"] == 5
    assert sizes["Meta-PS joint"] < sizes["Meta-PS even"]
    again = metapac("demo", "--data", "synthetic", "--draws", 3, "-o", tmp_path / "again")
    assert again.exit_code == 0
    assert (tmp_path / "again/demo.csv").read_text() == (tmp_path / "out/demo.csv").read_text()


def read_table(text: str, border: str) -> dict[str, list[str]]:
    """Return the rows of a table in a terminal or in Markdown, without emphasis."""
    rows = [line.replace("*", "").split(border)[1:-1] for line in text.splitlines()]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows if len(row) == 3}


@pytest.fixture(scope="module")
def sites_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """What the demo of sites prints, and the folder of its files, which has an awkward name."""
    folder = tmp_path_factory.mktemp("demo") / "my demo"
    result = metapac("demo", "--data", "sites", "-o", folder)
    assert result.exit_code == 0, result.output
    return result, folder


def test_the_demo_of_sites_shows_harm_and_price_on_one_screen(
    sites_demo: tuple[Result, Path],
) -> None:
    result, folder = sites_demo
    assert len(result.output.splitlines()) <= 32
    text = " ".join(result.output.split())
    assert "at most 10% of the respondents get a list without the right label" in text
    assert re.search(r"with the plain guarantee, 19\d\d of 1950 heart attacks are missed", text)
    assert re.search(r"with a guarantee per class, 7\d% of the sets contain both labels", text)
    table = read_table(result.output, "│")
    assert table["allowed to miss"] == ["10%", "10% of each class"]
    assert table["verdict on the guarantee"] == ["holds", "holds"]
    plain, per_class = (float(share[:-1]) for share in table["missed, of heart attacks"])
    assert plain > 90
    assert per_class < 10
    assert float(table["sets with both labels"][1][:-1]) > 50
    names = {path.name for path in folder.iterdir()}
    assert names == {"plain.json", "per_class.json", "sites.png", "plain.html", "per_class.html"}
    assert "Reports, to open in a browser: " in text


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_pages_start_with_the_table_of_the_demo(
    page: str, sites_demo: tuple[Result, Path]
) -> None:
    printed = read_table(sites_demo[0].output, "│")
    shown = read_table((ROOT / page).read_text().partition("\n## ")[0], "|")
    for name in shown.keys() & printed.keys():
        for cell, expected in zip(shown[name], printed[name], strict=True):
            if re.fullmatch(r"[\d.]+%", expected):
                assert float(cell[:-1]) == pytest.approx(float(expected[:-1]), abs=1)
            else:
                assert cell == expected
    assert len(shown.keys() & printed.keys()) == 7


def test_the_command_that_the_demo_proposes_works(sites_demo: tuple[Result, Path]) -> None:
    proposed = shlex.split(sites_demo[0].output.splitlines()[-1])
    assert proposed[:2] == ["metapac", "show"]
    shown = metapac(*proposed[1:])
    assert shown.exit_code == 0, shown.output
    assert "whose right label is 'yes', at most 10% get a list without it" in " ".join(
        shown.output.split()
    )


def test_the_demo_of_sites_loads_no_other_extra(tmp_path: Path) -> None:
    code = (
        "import sys; from metapac.cli.app import app\n"
        f"app(['demo', '--data', 'sites', '-o', {str(tmp_path)!r}], standalone_mode=False)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "matplotlib" in loaded
    assert not {"torch", "sklearn", "pandas", "ibis", "duckdb", "pyarrow", "joblib"} & {*loaded}


def test_without_the_extra_the_demo_writes_no_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = metapac("demo", "--data", "sites", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Without it, the demo writes no reports." in result.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"plain.json", "per_class.json", "sites.png"}


def test_draws_do_not_apply_to_sites(tmp_path: Path) -> None:
    result = metapac("demo", "--data", "sites", "--draws", 3, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "--draws 3 does not apply to the data 'sites'. Leave it out." in result.stderr
    assert not (tmp_path / "out").exists()
