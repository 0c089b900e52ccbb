"""Settings and fixtures that all tests share."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Times depend on the machine, answers do not: no test fails for being slow.
settings.register_profile("metapac", deadline=None, max_examples=150)
settings.load_profile("metapac")

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: more threads than one in each would only wait for one another.
    os.environ["OMP_NUM_THREADS"] = "1"

# Spark: a quick start rather than the fastest code, and no folder in the working tree.
os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
    [
        "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'",
        f"--conf spark.sql.warehouse.dir={tempfile.gettempdir()}/metapac-spark-warehouse",
        "pyspark-shell",
    ]
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_gpu: skipped where torch sees no GPU.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("needs_gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send a file to one worker, which makes its fixtures once, and all tests of Spark to one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            return "spark" if "spark" in test else file

    config.option.loadscopereorder = False  # Spark and what else takes long come first
    return ByFile(config, log)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute in one thread: the order of sums, hence the last bit, depends on their number."""
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as Debian packages it; without its sandbox, which needs rights that we may lack."""
    playwright, path = pytest.importorskip("playwright.sync_api"), shutil.which("chromium")
    if not (path := path or shutil.which("chromium-browser")):
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


def pytest_sessionfinish() -> None:
    """Close what tests share: DuckDB would list what is still open below pytest's closing line."""
    if engines := sys.modules.get("tests.helpers.engines"):
        engines.close_connections()
    # Ibis opens a connection of its own for tables that belong to none, such as those of frames.
    ibis = sys.modules.get("ibis")
    if ibis is not None and ibis.options.default_backend is not None:
        ibis.options.default_backend.disconnect()
        ibis.options.default_backend = None
