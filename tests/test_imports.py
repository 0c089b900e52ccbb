"""What the package loads, and which way its imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import metapac

SOURCE = Path(metapac.__file__).parent
# From the ground up: a module may import only what stands before it.
ORDER = [
    "_version",
    "_checks",
    "_exact",
    "binomial",
    "ranks",
    "sentences",
    "guarantee",
    "demands",
    "planning",
    "shortage",
    "grouping",
    "sets",
    "persistence",
    "evidence",
    "_estimator",
    "calibration",
    "corrections",
    "meta_cp",
    "sites",
    "tables.brackets",
    "tables.keys",
    "tables._checks",
    "tables.layout",
    "tables.upload",
    "tables.connections",
    "tables.csv_text",
    "tables.spark_files",
    "tables.failures",
    "tables.files",
    "tables.databases",
    "tables.sources",
    "tables.scores",
    "tables.sizes",
    "tables.cuts",
    "tables.census",
    "tables.pool",
    "tables.ranks",
    "tables.calibrate",
    "tables.site",
    "tables.output",
    "tables.predict",
    "tables.evaluate",
    "plots",
    "tasks.synthetic",
    "tasks._checks",
    "tasks._seeds",
    "tasks.task",
    "tasks.pools",
    "tasks.glyphs",
    "datasets.cache",
    "datasets.download",
    "datasets.archives",
    "datasets.pickles",
    "datasets.images",
    "datasets.miniimagenet_layouts",
    "datasets.miniimagenet",
    "datasets.cifar10",
    "datasets.corruptions",
    "datasets.cifar10c",
    "datasets.glove",
    "datasets.fewrel_files",
    "datasets.fewrel",
    "datasets.fips",
    "datasets.brfss",
    "datasets.heart_source",
    "datasets.heart_tally",
    "datasets.heart_cleaning",
    "datasets.heart_years",
    "datasets.heart_table",
    "datasets.heart_pools",
    "datasets.heart",
    "datasets.catalogue",
    "learners.contract",
    "learners._checks",
    "learners._inference",
    "learners._backbone",
    "learners.resnets",
    "learners.backbones",
    "learners.support_norm",
    "learners.plain",
    "learners.prototypes",
    "learners.bank",
    "learners.protonet",
    "learners.quantiles",
    "learners.maml",
    "learners.episodes",
    "learners.loss",
    "learners.course",
    "learners.weights",
    "learners.loading",
    "learners.checkpoints",
    "learners.distributed",
    "learners.run",
    "learners.training",
    "scoring",
    "evaluation.draws",
    "evaluation.methods",
    "evaluation.rows",
    "evaluation.folder",
    "evaluation.summary",
    "evaluation.trials",
    "figures",
    "demo.setting",
    "demo.synthetic",
    "demo.glyphs",
    "reproduce.experiments",
    "reproduce.data",
    "reproduce.learning",
    "reproduce.studies",
    "reproduce.run",
    "cli.common",
    "cli.tables",
    "cli.examples",
    "cli.plan",
    "cli.calibrate",
    "cli.predict",
    "cli.evaluate",
    "cli.site",
    "cli.data",
    "cli.train",
    "cli.reproduce",
    "cli.demo",
    "cli.app",
]


@pytest.mark.parametrize("module", ["metapac", "metapac.datasets"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "numpy" in loaded
    heavy = {
        "torch",
        "pandas",
        "polars",
        "pyarrow",
        "PIL",
        "matplotlib",
        "sklearn",
        "typer",
        "rich",
        "ibis",
        "duckdb",
        "pyspark",
        "sqlglot",
    }
    assert not heavy & set(loaded)


def test_the_command_line_starts_without_an_engine() -> None:
    code = "import sys, metapac.cli.app; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"ibis", "duckdb", "pyspark", "torch", "pandas"} & set(loaded)


def test_imports_point_one_way() -> None:
    known = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in _modules()}
    assert known == set(ORDER)
    for i, module in enumerate(ORDER):
        path = SOURCE / (module.replace(".", "/") + ".py")
        for imported in _imports(path):
            before = [each for each in ORDER[:i] if f"{each}.".startswith(f"{imported}.")]
            assert before, f"{module} imports {imported}"


def _modules() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if not path.name.startswith("__")]


def _imports(path: Path) -> set[str]:
    """Return the modules of this package that a file imports, anywhere in it."""
    found = set()
    for node in _nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metapac":
            inside = (node.module or "").removeprefix("metapac").removeprefix(".")
            names = [f"{inside}.{alias.name}".strip(".") for alias in node.names]
            modules = [n for n in names if (SOURCE / (n.replace(".", "/") + ".py")).exists()]
            found |= set(modules) if modules else {inside}
    return found


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a file, but for what only a type checker sees."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from _nodes(child)


def test_every_public_name_is_there_and_documented() -> None:
    for name in metapac.__all__:
        assert getattr(metapac, name).__doc__
