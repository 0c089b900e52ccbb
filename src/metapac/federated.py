"""Sites that cannot share their data: each sends a few numbers, and some may be dishonest."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from metapac import _common, artefact, inputs
from metapac._common import Floats, PathLike, Progress, as_whole_number, listed, warn
from metapac._text import name_score
from metapac.columns import hold_losses, hold_numbers
from metapac.context import Context, as_context
from metapac.data_checks import CheckWarning, check_allowed, check_levels, check_names_differ
from metapac.errors import BadArtefact, InfeasibleGuarantee, InvalidInput, keyword
from metapac.evidence import Evidence, Part, count_absent, first_step, join_draws
from metapac.grouping import Data, DrawnRows, Scored, as_data
from metapac.guarantee import Guarantee, drop_defaults, keep_rule
from metapac.planning import min_sample_size
from metapac.predictors import MetaPS, match_classes
from metapac.ranks import failure_of_ranks
from metapac.risk import MetaRisk
from metapac.verdict import probability_of_any
from metapac.words import round_down


def _upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of version 0.1.0, which knew no classes, or of 0.2.0, in its new form."""
    document = keep_rule(document)
    if "classes" in document or not isinstance(document.get("examples"), int):
        return document
    rows = {name: [document[name]] for name in ("examples", "thresholds") if name in document}
    return document | rows | {"classes": None}


class _Document(TypedDict, total=False):
    columns: dict[str, Any]
    model: str
    score: str
    range: Annotated[list[Any], lambda ends: len(ends) == 2]


FORMAT = artefact.Format(
    "metapac site",
    written_by="'metapac site -o'",
    remedy="Ask the site to write it again with 'metapac site'.",
    schema=2,
    shape=_Document,
    upgrade=_upgrade,
)


# One line, with no space or byte-order mark at its ends.
_SPACE, _BREAK = r"\s\ufeff", r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_NAME = re.compile(rf"(?![{_SPACE}])[^{_BREAK}]+(?<![{_SPACE}])")


@dataclass(frozen=True)
class Site:
    """The message of a site: its threshold at each level, and how many examples it rests on.

    Parameters
    ----------
    name : str
        Name of the site; no two may share it.
    guarantee : Guarantee
        What all sites have agreed on.
    examples : tuple of int
        Number of examples; with a guarantee per class, of each class.
    thresholds : tuple of tuple of float
        One number for each level; with a guarantee per class, a row for each class.
    precision : numpy.dtype
        Precision of the scores.
    classes : tuple, optional
        The classes, if the guarantee is per class.
    columns : dict, optional
        Columns of the table that the scores come from, and the classes that have scores in it.
    model, score : str, optional
        Model and score function that gave the scores, if their table names them.
    range : tuple of float, optional
        Lowest and highest score, which recognise a site under another name.
    within : DrawnRows, optional
        The draw of one row of each unit, if the site has units such as households.

    Examples
    --------
    >>> from metapac import MetaPS, make_site
    >>> agreed = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    >>> site = make_site(agreed, range(100), name="ohio")
    >>> site.examples, site.thresholds
    ((100,), ((5.0,),))
    """

    name: str
    guarantee: Guarantee
    examples: tuple[int, ...]
    thresholds: tuple[tuple[float, ...], ...]
    precision: np.dtype[Any]
    classes: tuple[Any, ...] | None = None
    columns: dict[str, Any] | None = None
    model: str | None = None
    score: str | None = None
    range: tuple[float, float] | None = None
    within: DrawnRows | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        for parameter in ("model", "score"):
            if (value := getattr(self, parameter)) is not None:
                _common.check_text(parameter, value)
        try:
            self._check_numbers()
        except InvalidInput as error:
            raise InvalidInput(f"site {self.name!r}: {error}") from error

    def _check_numbers(self) -> None:
        """Raise InvalidInput for a message that no data can give."""
        object.__setattr__(self, "precision", inputs.as_precision(self.precision))
        per_class = self.guarantee.per_class
        if bool(per_class) != (self.classes is not None):
            needed = "must name the classes" if per_class else "must be None"
            raise InvalidInput(f"classes {needed}, since per_class is {per_class}.")
        rows = 1 if self.classes is None else len(inputs.as_classes([*self.classes]))
        examples = _common.as_whole_numbers("examples", self.examples, minimum=0)
        thresholds = inputs.as_score_array("thresholds", self.thresholds)
        shape = rows, self.guarantee.numbers_per_task
        if examples.shape != shape[:1] or thresholds.shape != shape:
            text = f"examples must have shape {shape[:1]} and thresholds {shape}, by classes and"
            raise InvalidInput(f"{text} levels, got {examples.shape} and {thresholds.shape}.")
        self._check_thresholds(thresholds)
        inputs.check_columns(self.columns, self.classes)
        evidence = join_sites([self])
        evidence.check_certified(self.guarantee, "thresholds")
        evidence.check_ranges()

    def _check_thresholds(self, thresholds: Floats) -> None:
        """Raise InvalidInput for a threshold that cannot be a score."""
        inputs.check_no_nan("thresholds", thresholds, remedy="Take it out of the scores.")
        unfit = ~inputs.is_representable(thresholds, self.precision)
        for value in thresholds[unfit][:1].tolist():
            raise InvalidInput(
                f"thresholds holds {value!r}, which no {self.precision.name} score can be."
            )
        if "lower" in (self.columns or {}) and np.max(thresholds) == np.inf:
            text = "thresholds of predicted quantiles must be below inf: their scores, min(y -"
            raise InvalidInput(f"{text} lower, upper - y), are finite.")
        for value in thresholds[thresholds > 0][:1].tolist():
            if "prediction" in (self.columns or {}):
                text = f"thresholds of predicted numbers must be at most 0, got {value!r}: their"
                raise InvalidInput(f"{text} scores, -|y - prediction| / scale, are never positive.")

    def to_dict(self) -> dict[str, Any]:
        """Return what the site sends, as ``metapac site --json`` prints it.

        Returns
        -------
        dict
            Its name, and examples and thresholds; with a guarantee per class, those of each class.
        """
        pairs = zip(self.examples, self.thresholds, strict=True)
        rows = [{"examples": n, "thresholds": artefact.encode_floats([*x])} for n, x in pairs]
        if self.classes is None:
            return {"site": self.name} | rows[0]
        named = [{"class": x} | row for x, row in zip(self.classes, rows, strict=True)]
        return {"site": self.name, "classes": named}

    def __str__(self) -> str:
        """Return the thresholds that the site sends, and what too few examples mean."""
        numbers = len(self.thresholds[0])
        lines = [f"Site {self.name} sends {numbers} threshold{'s' * (numbers > 1)}:"]
        for place, thresholds in enumerate(self.thresholds):
            low, high = (round_down(end, 4) for end in (min(thresholds), max(thresholds)))
            of_class = "" if self.classes is None else f" of class {self.classes[place]!r}"
            count = self.examples[place]
            data = f"{count:,} example{'s' * (count != 1)}{of_class}"
            lines.append(f"- {data}: from {low} to {high}.{self._explain_shortage(place)}")
        return "\n".join(lines)

    def _explain_shortage(self, place: int) -> str:
        """Return what happens to a site that has too few examples, in total or of a class."""
        guarantee, effect = self.guarantee, "keeps every label"
        if hold_numbers(self.columns):
            effect = "has infinite intervals"
        elif hold_losses(self.columns):
            effect = "certifies no threshold"
        if self.classes is not None:
            guarantee = guarantee.for_class(self.classes[place], self.classes)
            effect = "always keeps this class"
        if self.guarantee.is_together:
            effect = "keeps every label"
        if min(self.thresholds[place]) == np.inf and not self.examples[place]:
            return " The site is declared to have none."
        if self.examples[place] < guarantee.min_examples:
            return f" Fewer than min_examples={guarantee.min_examples}: they are left out."
        if max(self.thresholds[place]) > -np.inf:
            return ""
        minimum = min_sample_size(guarantee.miss_rate, guarantee.levels[-1].alpha_within)
        return f" A threshold takes {minimum}: the site counts as one that {effect}."

    def save(self, path: PathLike) -> None:
        """Write the site file, versioned JSON: no scores but thresholds, lowest and highest.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        artefact.write(path, self._to_json(), FORMAT)

    def _to_json(self) -> dict[str, Any]:
        """Return what a site file holds."""
        body = {
            "site": self.name,
            "parameters": artefact.encode_parameters(drop_defaults(asdict(self.guarantee))),
            "levels": _levels(self.guarantee),
            "classes": None if self.classes is None else list(self.classes),
            "examples": list(self.examples),
            "thresholds": artefact.encode_floats([*map(list, self.thresholds)]),
            "precision": self.precision.name,
        }
        for name in ("range", "columns", "model", "score"):
            if (value := getattr(self, name)) is not None:
                body[name] = artefact.encode_floats([*value]) if name == "range" else value
        return body if self.within is None else body | {"within": self.within._asdict()}


def make_message(name: str, guarantee: Guarantee, evidence: Evidence) -> Site:
    """Return the message of a site from its evidence, that of a single task."""
    if len(evidence.names) != 1:
        raise InvalidInput(f"a site must be one task, got {len(evidence.names)}.")
    counts = tuple(evidence.sizes[0].tolist()), tuple(map(tuple, evidence.thresholds[0].tolist()))
    more: Any = {name: getattr(evidence, name) for name in ("classes", "columns", "within")}
    more["range"] = None if evidence.ranges is None else tuple(evidence.ranges[0].tolist())
    return Site(name, guarantee, *counts, evidence.precision, **more)


def make_site(
    method: MetaPS,
    scores: ArrayLike | Data,
    labels: ArrayLike | None = None,
    *,
    name: str,
    classes: Sequence[Any] | None = None,
    within: ArrayLike | Iterable[object] | None = None,
    lacking: Iterable[Any] = (),
    rng: int = 0,
    allow: Iterable[str] = (),
    progress: Progress | None = None,
) -> Site:
    """Return what a site sends to ``combine_sites``: a threshold for each level, no other score.

    All examples are one task. Every site has to use the same parameters.

    Parameters
    ----------
    method : MetaPS
        The guarantee that all sites have agreed on; it need not be calibrated.
    scores : array_like, shape (n,) or (n, classes), or Table
        Scores of the true labels of this site, or with ``labels`` those of all classes; or its
        table, from ``open_table``. With ``per_class``, `Columns.classes` must name the classes if
        the table has no scores for each of them: a site may lack examples of some.
    labels : array_like, shape (n,), optional
        True label of each example, as in ``MetaPS.calibrate``. Not with a table.
    name : str
        Name of the site, unique among sites.
    classes : sequence, optional
        Class of each column of ``scores``. Not with a table.
    within : array_like, shape (n,), optional
        Units of the site, as in ``MetaPS.calibrate``.
    lacking : iterable, optional
        With ``per_class="together"``, classes of which the site has no example at all.
    rng : int, default 0
        Seed of the draw from units; the same at every site, which draws by its name.
    allow, progress : optional
        As in ``MetaPS.calibrate``.

    Returns
    -------
    Site
        The message of this site.

    Examples
    --------
    >>> import pandas as pd
    >>> from metapac import Columns, MetaPS, make_site, open_table
    >>> agreed = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, split="tight")
    >>> table = open_table(pd.DataFrame({"score": range(100)}), Columns(score="score"))
    >>> make_site(agreed, table, name="ohio").thresholds
    ((4.0,),)
    """
    if not isinstance(method, MetaPS):
        text = f"method, which comes first, must be a MetaPS, got {type(method).__name__}."
        raise InvalidInput(text, parameter="method")
    _check_name(name)  # fail fast
    guarantee = method._make_guarantee()
    check_levels(guarantee.epsilon, guarantee.alpha, guarantee.delta, allow=allow)
    if isinstance(scores, Data):
        data = as_data(scores, None, labels, classes, None, within)
    else:
        data = replace(Scored.of_one_task(scores, labels, classes), within=within)
    data = method._as_scores(data, name)
    if not isinstance(data, Scored):
        data = _as_site(data, guarantee)
        guarantee = match_classes(guarantee, data)
    elif not guarantee.per_class:
        data.check_no_labels()
    origin = data.add_origin(Context())
    data, drawn = data.draw_rows(rng, name)
    tell = progress or _common.ignore_progress
    evidence = first_step(data, guarantee, check_allowed(allow), tell)._replace(within=drawn)
    if isinstance(lacking, str):
        raise InvalidInput(f"lacking must be a list of classes, got {lacking!r}.")
    if absent := dict.fromkeys(lacking, evidence.names.tolist()):
        evidence = evidence.declare_lacking(guarantee, absent)
    site = make_message(name, guarantee, evidence)
    return replace(site, model=origin.model, score=origin.score and name_score(origin.score))


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        rule = f"name must be one line without spaces at its ends, got {_common.brief(name)}."
        raise InvalidInput(rule)


def _as_site(table: Any, guarantee: Guarantee) -> Any:
    """Return a table as one site, whose columns must tell all classes."""
    columns = table.columns
    if columns.task is not None or columns.cluster is not None:
        raise InvalidInput(
            "task and cluster must be left out: all rows of a site are one task.", parameter="task"
        )
    if not guarantee.per_class or columns.score is None or columns.classes is not None:
        return table
    if not isinstance(guarantee.epsilon, Mapping):
        text = "classes must name all classes if score is passed: they must be the same at every"
        text += " site, and this one may lack"
        raise InvalidInput(f"{text} some.", parameter=("classes", "score"))
    return table.with_columns(classes=list(guarantee.epsilon))


def read_site(path: PathLike) -> Site:
    """Return the site that `Site.save` or ``metapac site`` wrote.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    Site
        The site.

    Raises
    ------
    BadArtefact
        If the file is not a site file, was edited or damaged, or is from an incompatible version.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import Guarantee, Site, read_site
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    >>> site = Site("ohio", agreed, (100,), ((0.25,),), np.dtype("float64"))
    >>> site.save("ohio.json")
    >>> read_site("ohio.json") == site
    True
    """
    body = artefact.read(path, FORMAT)
    with artefact.decoding(path, FORMAT):
        guarantee = Guarantee(**artefact.decode_parameters(body["parameters"]))
        if body["levels"] != _levels(guarantee):
            text = f"{path} has thresholds at levels {body['levels']}, but this metapac expects"
            text += f" {_levels(guarantee)} for {keyword('split', guarantee.split)}. Use one"
            raise BadArtefact(f"{text} version at all sites.")
        counts = tuple(map(int, body["examples"]))
        thresholds = tuple(tuple(map(float, row)) for row in body["thresholds"])
        more: Any = {name: body.get(name) for name in ("columns", "model", "score")}
        more["classes"] = None if body["classes"] is None else tuple(body["classes"])
        more["range"] = tuple(map(float, body["range"])) if "range" in body else None
        more["within"] = DrawnRows.from_json(body["within"]) if "within" in body else None
        site = Site(body["site"], guarantee, counts, thresholds, body["precision"], **more)
        artefact.check_written(body, site._to_json())
    return site


def _levels(guarantee: Guarantee) -> list[float]:
    """Return the levels within tasks, one for each threshold."""
    return [level.alpha_within for level in guarantee.levels]


def join_sites(sites: list[Site]) -> Evidence:
    """Return the evidence of sites, each of them a task."""
    thresholds = np.array([site.thresholds for site in sites], dtype=np.float64)
    first = sites[0]
    return Evidence(
        inputs.as_task_names([site.name for site in sites]),
        np.array([site.examples for site in sites], dtype=np.int64),
        thresholds,
        np.full(thresholds.shape[1], -np.inf),  # sites do not send their lowest score
        inputs.coarsest_precision(site.precision for site in sites),
        first.classes,
        _shared_columns(sites),
        ranges=np.array([site.range or (np.nan, np.nan) for site in sites]),
        within=join_draws([site.within for site in sites]),
    )


def _shared_columns(sites: list[Site]) -> dict[str, Any] | None:
    """Return the columns of all sites; if they differ, only the classes that all name."""
    first, *others = (site.columns or {} for site in sites)
    if all(each == first for each in others):
        return sites[0].columns
    is_named = all("classes" in each for each in (first, *others))
    return {"classes": first["classes"]} if is_named else None


_Named = tuple[str, Site]  # what messages call the site, by its name or by its file, and the site
_ORIGINS = {"model": "model", "score": "score function"}


def check_agreement(named: list[_Named], allow: Iterable[str]) -> None:
    """Check that sites can be combined: one guarantee, one order of classes, no site twice."""
    stated = [(where, vars(site.guarantee) | {"classes": site.classes}) for where, site in named]
    for name in (*(field.name for field in fields(Guarantee)), "classes"):
        _require_same([(where, values[name]) for where, values in stated], partial(keyword, name))
    columns = [(where, site.columns or {}) for where, site in named]
    orders = [(where, names["classes"]) for where, names in columns if "classes" in names]
    losses = [(where, names if hold_losses(names) else None) for where, names in columns]
    _require_same(losses, lambda names: f"losses in {_common.brief(names)}")
    _require_same(orders, lambda names: f"scores of the classes {_common.brief(names)}")
    seeds = [(where, None if site.within is None else site.within.rng) for where, site in named]
    _require_same(seeds, lambda rng: "no units" if rng is None else f"units drawn with {rng=}")
    seen: dict[str, str] = {}
    for where, site in named:
        if site.name in seen:
            text = f"{where} and {seen[site.name]} are both of site {site.name!r}, and a site"
            text += " counts only once. Leave one out; if they are two sites, give them two"
            raise InvalidInput(f"{text} names.")
        seen[site.name] = where
    check_names_differ(seen, what="site", allow=allow)


def _require_same(stated: list[tuple[str, Any]], describe: Callable[[Any], str]) -> None:
    """Raise InvalidInput if a site states another value than the first one."""
    for where, value in stated[1:]:
        first, expected = stated[0]
        if value != expected:
            text = f"{where} has {describe(value)}, but {first} has {describe(expected)}. A"
            text += " guarantee holds for one: run 'metapac site' with the same options"
            raise InvalidInput(f"{text} everywhere.")


def _warn_of_differences(named: list[_Named]) -> None:
    """Warn of what sites do not share, and of models that cannot be compared."""
    sites = [site for _where, site in named]
    coarsest = inputs.coarsest_precision(site.precision for site in sites)
    coarse = [site for site in sites if site.precision == coarsest]
    if len(coarse) < len(sites):
        names = _name_sites(coarse)
        warn(CheckWarning(f"sets are decided in {coarsest.name}, because of {names}."))
    first = named[0]
    others = [other for other in named if (other[1].columns or {}) != (first[1].columns or {})]
    for where, other in others[:1]:
        text = f"{where} and {first[0]} have scores from different columns: {_describe(other)} and "
        text += f"{_describe(first[1])}. The promise stores none of them: name the columns when you"
        warn(CheckWarning(f"{text} predict."))
    unnamed = [site for site in sites if site.model is None]
    if 0 < len(unnamed) < len(sites):
        text = "did not name the model, so it cannot be compared with that of the others."
        warn(CheckWarning(f"{_name_sites(unnamed)} {text}"))


def _describe(site: Site) -> str:
    """Return the columns that the scores of a site come from."""
    names = {k: v for k, v in (site.columns or {}).items() if k != "classes"}
    return ", ".join(f"{key} {value!r}" for key, value in names.items()) or "an array"


def _name_sites(sites: list[Site]) -> str:
    """Return the names of sites; of many, the first."""
    names = listed([repr(site.name) for site in sites], shown=3)
    return f"site{'s' if len(sites) > 1 else ''} {names}"


def _add_origin(named: list[_Named], context: Context) -> Context:
    """Return the context with the model and the score function that the sites name."""
    for key, title in _ORIGINS.items():
        values = [(where, value) for where, site in named if (value := getattr(site, key))]
        stated = [(where, name_score(value)) for where, value in values]
        _require_same(stated, partial("scores of the {} {!r}".format, title))
        given = getattr(context, key)
        if stated and given is not None and name_score(given) != stated[0][1]:
            where, name = stated[0]
            text = f"{key} must be {name!r}, which {where} names as the {title} of its scores, got"
            raise InvalidInput(f"{text} {given!r}. Leave it out.")
        if stated and not given:
            context = replace(context, **{key: values[0][1]})
    return context


def combine_sites(
    sites: Iterable[Site | PathLike],
    *,
    on_infeasible: str = "raise",
    dishonest: int | None = None,
    invited: int | None = None,
    context: Context | None = None,
    allow: Iterable[str] = (),
) -> MetaPS:
    """Return what ``MetaPS.calibrate`` returns on the scores of all sites, tasks sorted by name.

    Parameters
    ----------
    sites : iterable of Site or path
        The sites or their files. Each site counts once, and all must agree on the guarantee.
    on_infeasible : {"raise", "trivial"}, default "raise"
        As in `MetaPS`.
    dishonest : int, optional
        Number of sites that the guarantee survives whatever they send, fixed beforehand; by default
        the one that the sites agreed on, usually 0. Sites need not know it: their files are the
        same.
    invited : int, optional
        Number of sites that were asked, fixed beforehand. One that did not answer, or sent a file
        that is refused, counts as one of ``dishonest``. By default all of them answered.
    context : Context, optional
        What the guarantee is about. By default, the model is the one that the sites name.
    allow : iterable of str, default ()
        Checks to skip: "task-names" takes sites whose names are alike for different sites,
        "duplicates" sites with the same number of examples and range of scores.

    Returns
    -------
    MetaPS
        The calibrated predictor. It stores the columns of the tables, as ``columns_``, if all sites
        sent the same; of different ones, only the classes.

    Raises
    ------
    InvalidInput
        If sites do not agree on the guarantee, on the order of classes or on the model, or two
        have one name, names that are alike, or the same scores.

    Warns
    -----
    CheckWarning
        If sites have scores from different columns or of different precision, or only some name
        their model.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import Guarantee, Site, combine_sites
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    >>> precision = np.dtype("float64")
    >>> sites = [Site(f"site {i}", agreed, (100,), ((i / 40,),), precision) for i in range(40)]
    >>> combine_sites(sites).threshold_
    0.075
    """
    if isinstance(sites, str | os.PathLike | Site):
        raise InvalidInput("sites must be a list of sites or of their files.")
    read = [(site, site if isinstance(site, Site) else read_site(site)) for site in sites]
    named = [(f"site {s.name!r}" if given is s else str(given), s) for given, s in read]
    if not named:
        raise InvalidInput("sites is empty; pass at least one file written by 'metapac site'.")
    check_agreement(named, allow)
    about = _add_origin(named, as_context(context))
    _warn_of_differences(named)
    ordered = sorted((site for _where, site in named), key=lambda site: site.name)
    guarantee = ordered[0].guarantee
    if dishonest is not None:
        if guarantee.dishonest not in (0, dishonest):
            agreed = keyword("dishonest", guarantee.dishonest)
            text = f"dishonest must be left out, since the sites agreed on {agreed}"
            raise InvalidInput(f"{text}, got {dishonest!r}.")
        guarantee = replace(guarantee, dishonest=dishonest)
    absent = count_absent(invited, len(ordered))
    options: Any = {"on_infeasible": on_infeasible, "context": about, "allow": allow}
    try:
        evidence = join_sites(ordered)._replace(absent=absent)
        kind = MetaRisk if hold_losses(evidence.columns) else MetaPS
        return kind.from_evidence(guarantee, evidence, **options)
    except InfeasibleGuarantee as error:
        text = f"{error} For another guarantee, every site has to write its file again."
        raise InfeasibleGuarantee(text) from None


class Liars(NamedTuple):
    """How many dishonest sites it takes.

    Attributes
    ----------
    to_keep_all, to_empty : int
        To force every label into every set, and to make every set empty.
    """

    to_keep_all: int
    to_empty: int


def count_liars(guarantee: Guarantee, tasks: int, small: Sequence[int] | None = None) -> Liars:
    """Return how many dishonest sites can force every label into the sets, or none.

    Parameters
    ----------
    guarantee : Guarantee
        What the sites have agreed on; for one class with ``per_class``.
    tasks : int
        Number of sites, dishonest ones included.
    small : sequence of int, optional
        Number of honest sites at each level that send ``-inf`` anyway, having too few examples; by
        default none.

    Returns
    -------
    Liars
        The two numbers; ``to_keep_all`` is 0 if so few sites support nothing.

    Notes
    -----
    At each level, the threshold is the (k + 1)-th lowest that the sites sent, and the largest over
    all levels counts. Every label is kept if k + 1 sites send ``-inf`` at *every* usable level.
    Every set is empty if at *some* level all but k send ``inf``.

    Examples
    --------
    >>> from metapac import Guarantee, count_liars
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> count_liars(agreed, 29), count_liars(agreed, 100)
    (Liars(to_keep_all=1, to_empty=29), Liars(to_keep_all=4, to_empty=97))
    """
    allowed = guarantee.allowed_low_thresholds(as_whole_number("tasks", tasks))
    fewer = [0] * len(allowed) if small is None else small
    spare = max(k - few for k, few in zip(allowed, fewer, strict=True))
    return Liars(max(spare + 1, 0), tasks - max(allowed))


def summarise_liars(predictor: MetaPS) -> dict[str, int]:
    """Return how many sites count, and how many of them, if dishonest, can decide the sets."""
    predictor.check_calibrated()
    numbers = []
    for part in predictor._evidence.parts(predictor.guarantee_):
        sent = part.thresholds[part.used]
        small = (sent == -np.inf).sum(axis=0).tolist()
        keep, empty = count_liars(part.guarantee, part.tasks, small) if len(sent) else (0, 0)
        numbers.append((len(sent), keep, empty - part.absent * (len(sent) > 0)))
    fewest = map(min, zip(*numbers, strict=True))
    return dict(zip(("sites", *Liars._fields), fewest, strict=True))


def describe_liars(predictor: MetaPS) -> str:
    """Return in one sentence what dishonest sites can do; empty if so few sites support nothing."""
    sites, to_keep_all, to_empty = summarise_liars(predictor).values()
    if not to_keep_all:
        return ""
    ones = f"{to_keep_all} dishonest one{'s' * (to_keep_all > 1)}"
    widen, narrow = "force every label into every set", "empty every set"
    if predictor._is_interval:
        widen, narrow = "make every interval infinite", "shrink every interval to its prediction"
        narrow = "empty every interval" if "lower" in (predictor.columns_ or {}) else narrow
    if hold_losses(predictor.columns_):
        widen, narrow = "leave no threshold certified", "put the threshold at its highest"
    return f"Of {sites} sites, {ones} can {widen}; {to_empty} can {narrow}."


def failure_probability(
    guarantee: Guarantee, tasks: int, liars: int = 0, *, at_random: bool = False
) -> float:
    """Return the largest probability that the guarantee fails if some sites are dishonest.

    The worst case, by default, is that the sites with the lowest thresholds send ``inf``.

    Parameters
    ----------
    guarantee : Guarantee
        What the sites have agreed on, not in expectation; for one class with ``per_class``.
    tasks : int
        Number of sites, dishonest ones included.
    liars : int, default 0
        Number of dishonest sites, whoever they are, whatever they know and send.
    at_random : bool, default False
        Whether the dishonest sites are chosen at random, independently of their data, so that the
        others are still i.i.d. A site that lies because its data are bad is not chosen so.

    Returns
    -------
    float
        The probability; at most ``delta`` without dishonest sites.

    Examples
    --------
    >>> from metapac import Guarantee, failure_probability
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    >>> print(f"{failure_probability(agreed, 100):.3f}, {failure_probability(agreed, 100, 5):.3f}")
    0.045, 0.813
    """
    _ = guarantee.failure_probability  # raises if there is none
    tasks = as_whole_number("tasks", tasks)
    liars = as_whole_number("liars", liars, minimum=0)
    if liars > tasks:
        raise InvalidInput(f"liars must be at most tasks, {tasks}, got {liars}.")
    ranks = guarantee.allowed_low_thresholds(tasks)
    shares = np.array([level.alpha_across for level in guarantee.levels])
    if at_random:
        tasks -= liars
    else:  # each liar can hide one low threshold, the same one at every level
        ranks = tuple(k + liars if k >= 0 else k for k in ranks)
    if (of_list := guarantee.list_of_new_tasks) is not None:
        return failure_of_ranks(tasks, guarantee.levels, ranks, of_list)
    return min(1.0, probability_of_any(tasks, shares, ranks))


def bound_threshold(predictor: Any, liars: int = 1, *, label: Any = None) -> tuple[float, float]:
    """Return between which numbers the threshold would lie if every site had been honest.

    Parameters
    ----------
    predictor : MetaPS
        The calibrated predictor, whose tasks are sites.
    liars : int, default 1
        Largest number of sites that sent other numbers than their data give.
    label : object, optional
        The class, if the guarantee is per class.

    Returns
    -------
    low, high : float
        The two numbers, ``-inf`` and ``inf`` if nothing bounds it. Without ``min_examples``, they
        are not further apart than ``2 * liars`` ranks.

    Notes
    -----
    At each level, a threshold is the (k + 1)-th lowest number. Changing ``liars`` of the numbers
    moves it by at most as many ranks: it stays between the (k + 1 - liars)-th and the
    (k + 1 + liars)-th lowest of those that were sent. The largest over all levels counts.

    With ``min_examples``, a dishonest site may also have hidden examples to be left out, or
    invented some to be counted. How many sites should have counted, and k with it, is then not
    known: the range holds for every number within ``liars`` of those that counted.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS, bound_threshold
    >>> scores, sites = np.linspace(0, 1, 6000), np.repeat(range(60), 100)
    >>> predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, sites)
    >>> low, high = bound_threshold(predictor, 1)
    >>> print(f"{low:.3f} <= {predictor.threshold_:.3f} <= {high:.3f}")
    0.001 <= 0.018 <= 0.034
    """
    predictor.check_calibrated()
    parts = {part.label: part for part in predictor._evidence.parts(predictor.guarantee_)}
    if label not in parts:
        known = listed([*map(repr, parts)])
        raise InvalidInput(f"label must be one of {known}, got {label!r}.")
    part = parts[label]
    liars = as_whole_number("liars", liars, minimum=0)
    sites = len(part.used) + part.absent
    if liars > sites:
        raise InvalidInput(f"liars must be at most the number of sites, {sites}, got {liars}.")
    unsure = liars if part.guarantee.min_examples else 0
    least, most = max(part.tasks - unsure, 0), min(part.tasks + unsure, sites)
    lows, highs = zip(*(_bound(part, n, liars) for n in range(least, most + 1)), strict=True)
    return min(lows), max(highs)


def _bound(part: Part, honest: int, liars: int) -> tuple[float, float]:
    """Return the range if ``honest`` sites should have counted.

    If they are fewer than those that did, so many liars sent a number that should not be there; if
    they are more, so many sent none. The others may have sent any number.
    """
    sent = np.sort(part.thresholds[part.used], axis=0)
    sent = np.pad(sent, ((0, part.absent), (0, 0)), constant_values=np.inf)
    # Beyond the ends, dishonest sites could make it anything.
    padded = np.pad(sent, ((liars, liars), (0, 0)), constant_values=((-np.inf, np.inf), (0, 0)))
    ranks = part.guarantee.allowed_low_thresholds(honest) if honest else ()
    invented, hidden = max(len(sent) - honest, 0), max(honest - len(sent), 0)
    usable = [(level, rank) for level, rank in enumerate(ranks) if rank >= 0]
    shifts = invented, 2 * liars - hidden
    ends = ([padded[rank + shift, level] for level, rank in usable] for shift in shifts)
    low, high = (float(max(end, default=-np.inf)) for end in ends)
    return low, high
