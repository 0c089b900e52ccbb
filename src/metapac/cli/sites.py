"""``metapac site`` and ``metapac combine``: one file from each site, one promise from all."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from metapac import federated, predictors
from metapac.artefact import check_not_input, check_replaceable
from metapac.cli import console
from metapac.cli.calibration import defer_remarks, print_calibrated
from metapac.cli.options import ContextOptions, GuaranteeOptions, ReadingOptions
from metapac.cli.tables import open_table
from metapac.columns import Columns
from metapac.errors import InvalidInput
from metapac.federated import combine_sites, describe_liars, make_site, summarise_liars
from metapac.predictors import MetaPS
from metapac.risk import MetaRisk

_COLUMNS = "score label columns classes classes_column prediction y scale lower upper losses "
_COLUMNS += "thresholds within id"


def site(
    scores: list[str],
    *,
    name: str,
    output: Path,
    guarantee: GuaranteeOptions,
    columns: Annotated[Columns, _COLUMNS],
    within_rng: int = 0,
    lacking: Sequence[str] = (),
    allow: Sequence[str] = (),
    reading: ReadingOptions,
    json: bool = False,
) -> None:
    r"""Write the numbers that a site sends.

    Example:

        metapac site scores.csv --name ohio --score true_score \
            --epsilon 0.1 --alpha 0.1 --delta 0.05 -o ohio.json

    All rows of the table are one task. Only thresholds, the number of examples (of each class, with
    --per-class) and the names of columns, classes and, if the table has one, the model leave the
    site. There is a threshold for each level, or a single one with --split tight. Every site must
    use the same options; the coordinator then runs 'metapac combine'.

    Parameters
    ----------
    name : NAME
        Name of this site; must be unique among sites.
    output
        Site file to write.
    within_rng : SEED
        Seed of the draw of one row of each unit with --within, and with --losses of the random
        numbers that they are compared with; the same at every site.
    lacking : CLASS
        With --together, a class of which the site has no example at all.
    """
    check_replaceable(output, federated.FORMAT)
    stated = asdict(guarantee)
    with open_table(scores, reading, output) as (table, progress):
        method = MetaRisk(**stated, rng=within_rng) if columns.losses else MetaPS(**stated)
        given: Any = {"name": name.strip(), "rng": within_rng, "allow": allow, "progress": progress}
        table = table.with_columns(**vars(columns))
        result = make_site(method, table, lacking=lacking, **given)
    text = str(result)  # may refuse the levels, so before anything is written
    result.save(output)
    console.show(result, as_json=json, text=text, wrote=[output], output=str(output))


def combine(
    sites: list[str],
    *,
    output: Path,
    on_infeasible: str = "raise",
    dishonest: int | None = None,
    invited: int | None = None,
    context: ContextOptions,
    allow: Sequence[str] = (),
    json: bool = False,
) -> None:
    """Combine the files of all sites.

    Example:

        metapac combine ohio.json texas.json utah.json -o promise.json

    The result is one threshold with a guarantee. All sites must have used the same options, and
    each may appear only once.

    Parameters
    ----------
    sites : SITES
        Files written by 'metapac site', or globs or folders of them.
    output
        Promise file to write.
    dishonest
        Number of sites that the guarantee survives whatever they send, fixed beforehand. By default
        what the sites agreed on, usually 0.
    invited : NUMBER
        Number of sites that were asked. Those that did not answer count among --dishonest. By
        default all of them answered.
    """
    about = context.read()
    files = [file for path in sites for file in _site_files(path)]
    check_not_input(output, files)
    check_replaceable(output, predictors.FORMAT)
    given: Any = {"on_infeasible": on_infeasible, "dishonest": dishonest, "invited": invited}
    with defer_remarks():
        predictor = combine_sites(files, **given, context=about, allow=allow)
    predictor.save(output)
    print_calibrated(predictor, output, as_json=json, dishonest=summarise_liars(predictor))
    if not json:
        console.print_text(describe_liars(predictor))


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
