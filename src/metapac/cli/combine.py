"""``metapac combine``: from the files of sites to a promise file."""

from __future__ import annotations

import glob
import warnings
from pathlib import Path
from typing import Annotated

import typer

from metapac._files import check_not_input
from metapac.cli.bundles import ContextOptions
from metapac.cli.calibrated import print_calibrated
from metapac.cli.console import print_line
from metapac.cli.options import Allow, AsJson, OnInfeasible, PromiseOutput
from metapac.cli.parsing import parse_allowed
from metapac.exceptions import InvalidInput
from metapac.meaning.findings import CheckWarning
from metapac.robustness import Liars, describe_liars, summarise_liars
from metapac.sites import combine_sites


def combine(
    sites: Annotated[
        list[str],
        typer.Argument(
            metavar="SITES", help="Files written by 'metapac site', or globs or folders of them."
        ),
    ],
    *,
    output: PromiseOutput,
    on_infeasible: OnInfeasible = "raise",
    context: ContextOptions,
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Combine the files of all sites into one threshold with a guarantee.

    All sites must have used the same options, and each may appear only once.

    Example:

        metapac combine ohio.json texas.json utah.json -o promise.json
    """
    about, allowed = context.parse(), parse_allowed(allow)
    files = [file for path in sites for file in _site_files(path)]
    check_not_input(output, files)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # printed at the end
        warnings.simplefilter("always", CheckWarning)
        predictor = combine_sites(files, on_infeasible=on_infeasible, context=about, allow=allowed)
    predictor.save(output)
    dishonest = summarise_liars(predictor)
    print_calibrated(predictor, output, as_json=as_json, dishonest=dishonest)
    if dishonest["to_keep_all"] and not as_json:
        liars = Liars(dishonest["to_keep_all"], dishonest["to_empty"])
        is_interval = "prediction" in (predictor.columns_ or {})
        print_line(describe_liars(liars, dishonest["sites"], is_interval=is_interval))


def _site_files(path: str) -> list[Path]:
    """Return the site files at a path, in a folder or matching a glob."""
    if Path(path).is_dir():
        files = sorted(Path(path).glob("*.json"))
        if not files:
            raise InvalidInput(f"{path} holds no .json. Pass files written by 'metapac site'.")
        return files
    if glob.has_magic(path) and not Path(path).exists():
        return [Path(name) for name in sorted(glob.glob(path))] or [Path(path)]  # noqa: PTH207
    return [Path(path)]
