"""Benchmark of the splits: the size of sets for each, written into splits.md beside it.

    python benchmarks/splits.py [DRAWS]

Synthetic tasks of ``NormalFamily`` with 5 classes and signal 3. All splits see the same draws. A
split needs a few order statistics of each task; they are drawn directly, from their exact joint
distribution, instead of the scores. The expected size of a set is then a formula.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from metapac import Guarantee, MetaPS, allowed_errors
from metapac.artefact import replacing
from metapac.binomial import allowed_errors_in_task
from metapac.evidence import ranks_within
from metapac.fewshot import NormalFamily
from metapac.fewshot.study.figures import COLOURS
from metapac.plots import INK, create_figure, save
from metapac.ranks import expectation_rank

sys.path.append(str(Path(__file__).parents[1]))
from experiments.results_page.figures import follow_palette

EPSILON = ALPHA = 0.1
DELTA = 1e-5
TASKS = (112, 116, 150, 200, 300, 500, 1000, 2000)
EXAMPLES = (30, 50, 75, 100, 150, 250, 500, 1000, 2500)
SPREADS = (0.1, 0.5, 1.0)
DRAWS = 200
SPLITS = ("even", "tight", "joint")
# The best choice over all sizes before "joint": four levels that share delta.
FOUR_LEVELS = (0.02, 0.1, 0.25, 0.5)
MIDDLE_LEVEL = 0.2
BEST = "best level"
NONE = "\N{EN DASH}"  # every label is kept

FEW_TASKS, FEW_EXAMPLES, FEW_DELTA = (12, 30, 60), (30, 100, 500), 0.05
UNEVEN_TASKS, UNEVEN_SIZES, MIN_EXAMPLES = (300, 500, 2000), (5, 500), (0, 7, 15, 30, 60)

SIDES = ("tight", "joint")  # the splits shown side by side there

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "benchmarks" / "splits.md"
PICTURE = ROOT / "docs" / "figures" / "splits" / "size.svg"

Array = NDArray[np.float64]
# Pairs of ranks, within a task and across tasks; the largest of their thresholds is the result.
Pairs = tuple[tuple[int, int], ...]


class Rules(NamedTuple):
    """Ranks that each method uses; empty where it is infeasible."""

    methods: dict[str, Pairs]
    single: tuple[Pairs, ...]  # each attainable level alone, with the whole delta

    def ranks(self) -> dict[int, list[int]]:
        """Return for each rank within tasks the ranks across tasks that are needed, ascending."""
        needed: dict[int, set[int]] = {}
        for pairs in (*self.methods.values(), *self.single):
            for within, across in pairs:
                needed.setdefault(within, set()).add(across)
        return {within: sorted(needed[within]) for within in sorted(needed)}


def make_rules(tasks: int, examples: int, delta: float | None = DELTA) -> Rules:
    """Return the rules for a number of tasks of one size."""
    methods = {}
    for split in SPLITS:
        guarantee = Guarantee(epsilon=EPSILON, alpha=ALPHA, delta=delta, split=split)
        within = ranks_within(np.array([examples]), guarantee)[0].tolist()
        methods[split] = used_pairs(within, guarantee.allowed_low_thresholds(tasks))
    if delta is None:
        across = [across_rank(tasks, MIDDLE_LEVEL, None)]
        methods["middle level"] = usable([MIDDLE_LEVEL], across, examples)
    else:
        across = [across_rank(tasks, level, delta / 4) for level in FOUR_LEVELS]
        methods["four levels"] = usable(FOUR_LEVELS, across, examples)
    return Rules(methods, single_levels(tasks, examples, delta))


def usable(levels: Iterable[float], across: Iterable[int], examples: int) -> Pairs:
    within = (allowed_errors_in_task(examples, EPSILON, level) for level in levels)
    return used_pairs(within, across)


def used_pairs(within: Iterable[int], across: Iterable[int]) -> Pairs:
    return tuple(pair for pair in zip(within, across, strict=True) if min(pair) >= 0)


def single_levels(tasks: int, examples: int, delta: float | None) -> tuple[Pairs, ...]:
    """Return the candidates for a single level: those up to 1/2 that tasks of this size attain.

    Of levels with the same rank across tasks only the highest can be best.
    """
    within = np.arange(allowed_errors_in_task(examples, EPSILON, 0.5) + 1)
    levels = stats.binom.cdf(within, examples, EPSILON)
    best = {
        across_rank(tasks, float(x), delta): int(k) for k, x in zip(within, levels, strict=True)
    }
    return tuple(((k, across),) for across, k in best.items() if across >= 0)


def across_rank(tasks: int, level: float, delta: float | None) -> int:
    share = Fraction(ALPHA) * (1 - Fraction(level))
    if delta is None:
        return expectation_rank(tasks, share)
    return int(allowed_errors(tasks, math.nextafter(float(share), 0.0), delta))


def order_statistics(
    rng: np.random.Generator, shape: tuple[int, ...], examples: int, ranks: Sequence[int]
) -> Array:
    """Return order statistics of uniform samples, of these ranks from 0: (ranks, *shape).

    The n + 1 gaps between n uniform points are distributed as normalised exponential variables.
    """
    waits = np.diff([-1, *ranks, examples])  # how many gaps lie between one rank and the next
    arrivals = rng.standard_gamma(waits.reshape(-1, *[1] * len(shape)), (len(waits), *shape))
    np.cumsum(arrivals, axis=0, out=arrivals)
    return np.asarray(arrivals[:-1] / arrivals[-1])


def set_size(thresholds: Array, spread: float) -> Array:
    """Return the expected size of a set on a new task; every label where there is no threshold."""
    family = NormalFamily(spread=spread)
    missed = special.ndtr((thresholds - family.signal) / math.hypot(1, spread))
    return np.asarray(1 - missed + (family.classes - 1) * special.ndtr(-thresholds))


def ideal_threshold(spread: float) -> float:
    """Return the threshold at which exactly a fraction alpha of tasks miss too often."""
    quantiles = special.ndtri(EPSILON) + spread * special.ndtri(ALPHA)
    return float(NormalFamily().signal + quantiles)


def violation_share(thresholds: Array, spread: float) -> Array:
    """Return the share of new tasks on which the sets miss more often than epsilon."""
    lowest = thresholds - special.ndtri(EPSILON)
    return np.asarray(special.ndtr((lowest - NormalFamily().signal) / spread))


class Cell(NamedTuple):
    """The thresholds of each method for one number of tasks, examples and spread: (draws,)."""

    thresholds: dict[str, Array]
    spread: float

    def sizes(self, method: str) -> Array:
        return set_size(self.thresholds[method], self.spread)

    def mean(self, method: str) -> float:
        return float(self.sizes(method).mean())

    def error(self, method: str) -> float:
        """Return the standard error of the mean size."""
        sizes = self.sizes(method)
        return float(sizes.std(ddof=1) / math.sqrt(len(sizes)))

    def feasible(self, method: str) -> bool:
        return bool(self.thresholds[method].max() > -np.inf)


def simulate(
    tasks: int, examples: int, draws: int, *, delta: float | None, spreads: Sequence[float]
) -> dict[float, Cell]:
    """Return the thresholds of all methods on the same draws, for each spread."""
    applied = make_rules(tasks, examples, delta)
    needed = applied.ranks()
    rng = np.random.default_rng([tasks, examples, draws])
    batch = max(1, 1_000_000 // (tasks * max(1, len(needed))))
    parts: dict[float, list[dict[tuple[int, int], Array]]] = {spread: [] for spread in spreads}
    for start in range(0, draws, batch):
        shape = (min(batch, draws - start), tasks)
        signals = rng.standard_normal(shape)
        noise = special.ndtri(order_statistics(rng, shape, examples, list(needed)))
        for spread in spreads:
            scores = NormalFamily().signal + spread * signals
            parts[spread].append(across_tasks(noise, scores, needed))
    return {spread: _cell(applied, parts[spread], spread, draws) for spread in spreads}


def across_tasks(
    noise: Array, signals: Array, needed: dict[int, list[int]]
) -> dict[tuple[int, int], Array]:
    """Return for each pair of ranks the threshold of each draw."""
    found: dict[tuple[int, int], Array] = {}
    for row, (within, across) in zip(noise, needed.items(), strict=True):
        thresholds = row + signals  # (draws, tasks)
        thresholds.partition(across, axis=1)
        found |= {(within, rank): thresholds[:, rank] for rank in across}
    return found


def _cell(
    applied: Rules, parts: list[dict[tuple[int, int], Array]], spread: float, draws: int
) -> Cell:
    found = {pair: np.concatenate([part[pair] for part in parts]) for pair in parts[0]}

    def largest(pairs: Pairs) -> Array:
        every = [np.full(draws, -np.inf), *(found[pair] for pair in pairs)]
        return np.asarray(np.max(every, axis=0))

    thresholds = {method: largest(pairs) for method, pairs in applied.methods.items()}
    single = [largest(pairs) for pairs in applied.single] or [largest(())]
    thresholds[BEST] = min(single, key=lambda cuts: float(set_size(cuts, spread).mean()))
    return Cell(thresholds, spread)


def check_against_the_library() -> None:
    """Check the rules on real scores: the thresholds must be those of ``MetaPS``, to the bit."""
    family = NormalFamily()
    for tasks, examples in ((116, 30), (250, 75), (400, 250)):
        scores = family.draw_scores(family.draw_tasks(tasks, rng=0), examples, rng=1)
        ordered = np.sort(scores, axis=1)
        for split, pairs in make_rules(tasks, examples).methods.items():
            if split not in SPLITS or not pairs:
                continue
            ours = max(float(np.sort(ordered[:, k])[across]) for k, across in pairs)
            names = np.repeat(np.arange(tasks), examples)
            theirs = _method(split).calibrate(scores.ravel(), names).threshold_
            assert theirs == ours, (tasks, examples, split)


def _method(split: str, **parameters: Any) -> MetaPS:
    return MetaPS(epsilon=EPSILON, alpha=ALPHA, delta=DELTA, split=split, **parameters)


Grid = dict[tuple[int, int, float], Cell]  # by tasks, examples and spread


def simulate_grid(draws: int) -> Grid:
    """Return the cells of the large table."""
    cells_of: Grid = {}
    for tasks, examples in show_progress([(n, m) for n in TASKS for m in EXAMPLES]):
        cells = simulate(tasks, examples, draws, delta=DELTA, spreads=SPREADS)
        cells_of |= {(tasks, examples, spread): cell for spread, cell in cells.items()}
    return cells_of


def show_progress(work: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Iterate over the work, with a progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield from work
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task("calibrating", total=sum(tasks for tasks, _ in work))
        for tasks, examples in work:
            yield tasks, examples
            bar.advance(job, tasks)


class Claim(NamedTuple):
    """A statement about the default split, and whether the measurements support it."""

    text: str
    holds: bool


def check_claims(cells: Grid) -> list[Claim]:
    excess = max(
        float(np.max(cell.sizes("joint") / cell.sizes("four levels") - 1))
        for cell in cells.values()
    )
    over_tight = {at: cell.mean("joint") / cell.mean("tight") - 1 for at, cell in cells.items()}
    worst = max(over_tight, key=over_tight.__getitem__)
    saved = -over_tight[500, 30, 0.5]
    large = max(abs(x) for (n, m, _), x in over_tight.items() if n >= 116 and m == EXAMPLES[-1])
    behind = {at: cell.mean("joint") / cell.mean(BEST) - 1 for at, cell in cells.items()}
    behind_at = max(behind, key=behind.__getitem__)
    draws = sum(len(cell.sizes("joint")) for cell in cells.values())
    return [
        Claim(
            "Never larger than the sets of four levels (.02, .1, .25, .5) that share delta: in "
            f"{draws:,} calibrations, the largest excess is {excess:.2%}.",
            excess <= 1e-12,
        ),
        Claim(
            "Never more than 2% larger than `tight`, on average: at worst "
            f"{over_tight[worst]:+.2%}, with {_where(worst)}.",
            over_tight[worst] <= 0.02,
        ),
        Claim(
            f"Much smaller than `tight` where tasks are small: by {saved:.1%} with "
            f"{_where((500, 30, 0.5))}.",
            saved >= 0.2,
        ),
        Claim(
            f"With {EXAMPLES[-1]} examples per task, `joint` and `tight` differ by at most "
            f"{large:.1%} from {TASKS[1]} tasks on.",
            True,
        ),
        Claim(
            "Close to the best single level, which is unknown beforehand: at worst "
            f"{behind[behind_at]:+.1%}, with {_where(behind_at)}; "
            f"{float(np.median(list(behind.values()))):+.1%} in the median cell.",
            True,
        ),
    ]


def _where(at: tuple[int, int, float]) -> str:
    return "{} tasks of {} examples, spread {:g}".format(*at)


def format_large_tables(cells: Grid, draws: int) -> str:
    parts = []
    for spread in sorted(SPREADS, key=lambda spread: spread != 0.5):
        ideal = float(set_size(np.array(ideal_threshold(spread)), spread))
        table = _large_table(cells, spread)
        worst = max(
            cell.error(method)
            for (_, _, s), cell in cells.items()
            if s == spread
            for method in (*SPLITS, BEST)
        )
        text = (
            f"Ideal: {ideal:.2f}. {draws} draws in each cell; standard errors are at most "
            f"{worst:.3f}.\n\n{table}"
        )
        heading = f"Spread {spread:g}"
        if spread == 0.5:
            parts.append(f"### {heading}\n\n{text}")
        else:
            parts.append(f"<details><summary>{heading}</summary>\n\n{text}\n\n</details>")
    return "\n\n".join(parts)


def _large_table(cells: Grid, spread: float) -> str:
    lines = [_row("tasks", "split", *EXAMPLES), "|---:|---|" + "---:|" * len(EXAMPLES)]
    for tasks in TASKS:
        for method in (*SPLITS, BEST):
            row = [_size(cells[tasks, examples, spread], method) for examples in EXAMPLES]
            bold = [f"**{size}**" for size in row] if method == "joint" else row
            name = {"joint": "**joint**", BEST: f"*{BEST}*"}.get(method, method)
            lines.append(_row(tasks if method == "even" else "", name, *bold))
    return "\n".join(lines)


def _size(cell: Cell, method: str) -> str:
    return f"{cell.mean(method):.2f}" if cell.feasible(method) else NONE


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def format_few_table(draws: int) -> str:
    """Return the table of few tasks, at delta .05 and in expectation, spread .5."""
    spread = 0.5
    none = ("None", f"None, split={MIDDLE_LEVEL}", f"None, {BEST}", "violating tasks")
    sure = ("0.05, tight", "0.05, joint", f"0.05, {BEST}", "violating draws")
    lines = [_row("tasks", "examples", *none, *sure), "|" + "---:|" * 10]
    errors = []
    for tasks in FEW_TASKS:
        for examples in FEW_EXAMPLES:
            average, certain = (
                simulate(tasks, examples, draws, delta=delta, spreads=[spread])[spread]
                for delta in (None, FEW_DELTA)
            )
            errors += [cell.error(method) for cell in (average, certain) for method in SPLITS]
            share = violation_share(average.thresholds["joint"], spread).mean()
            failed = (violation_share(certain.thresholds["joint"], spread) > ALPHA).mean()
            lines.append(
                _row(
                    *(tasks, examples),
                    *(_size(average, method) for method in ("joint", "middle level", BEST)),
                    f"{share:.1%}",
                    *(_size(certain, method) for method in ("tight", "joint", BEST)),
                    f"{failed:.1%}" if certain.feasible("joint") else NONE,
                )
            )
    return f"{draws:,} draws; standard errors are at most {max(errors):.3f}.\n\n" + "\n".join(lines)


def format_uneven_table(draws: int) -> str:
    """Return the table of tasks of very different sizes, spread .5."""
    head = [f"{split}, {tasks} tasks" for tasks in UNEVEN_TASKS for split in SIDES]
    lines = [_row("`min_examples`", "tasks left", *head), "|---:|---:|" + "---:|" * len(head)]
    found = {tasks: simulate_uneven(tasks, draws) for tasks in UNEVEN_TASKS}
    low, high = UNEVEN_SIZES
    for minimum in MIN_EXAMPLES:
        left = min(1.0, math.log(high / max(minimum, low)) / math.log(high / low))
        sizes = [_size(found[tasks][minimum], split) for tasks in UNEVEN_TASKS for split in SIDES]
        lines.append(_row(minimum, f"{left:.0%}", *sizes))
    errors = [cell.error(x) for cells in found.values() for cell in cells.values() for x in SIDES]
    return f"{draws} draws; standard errors are at most {max(errors):.3f}.\n\n" + "\n".join(lines)


def simulate_uneven(tasks: int, draws: int, spread: float = 0.5) -> dict[int, Cell]:
    """Calibrate ``MetaPS`` on tasks with log-uniform sizes, for each min_examples."""
    family, rng = NormalFamily(spread=spread), np.random.default_rng(tasks)
    low, high = UNEVEN_SIZES
    found: dict[int, dict[str, list[float]]] = {
        minimum: {split: [] for split in SIDES} for minimum in MIN_EXAMPLES
    }
    for _ in range(draws):
        sizes = np.exp(rng.uniform(math.log(low), math.log(high + 1), tasks)).astype(int)
        names = np.repeat(np.arange(tasks), sizes)
        scores = rng.standard_normal(len(names)) + family.draw_tasks(tasks, rng)[names]
        for minimum, by_split in found.items():
            for split, thresholds in by_split.items():
                fitted = _method(split, min_examples=minimum, on_infeasible="trivial")
                thresholds.append(fitted.calibrate(scores, names).threshold_)
    return {
        minimum: Cell({split: np.array(x) for split, x in by_split.items()}, spread)
        for minimum, by_split in found.items()
    }


# Colours and marks of the splits are those of all figures: see experiments/results_page/figures.py.
_LINES = {
    "even": (COLOURS["Meta-PS even"], "-", "^", 1.5),
    "tight": (COLOURS["Meta-PS tight"], "-", "v", 1.5),
    "joint": (COLOURS["Meta-PS joint"], "-", "D", 2.6),
    BEST: (INK, ":", "", 1.6),
}
_LABELS = {BEST: "best single level in hindsight", "joint": "joint (default)"}
_TITLES = {0.1: "similar tasks", 0.5: "tasks differ", 1.0: "tasks differ a lot"}


def draw(cells: Grid, tasks: int, path: Path) -> None:
    """Draw the size of sets over the examples per task, a panel for each spread."""
    figure, panels = create_figure(3, width=10.5, height=4.0)
    for panel, spread in zip(panels, SPREADS, strict=True):
        ideal = float(set_size(np.array(ideal_threshold(spread)), spread))
        panel.axhline(ideal, color="#999999", linewidth=1.2, linestyle=(0, (6, 3)), label="ideal")
        for method, (colour, line, marker, width) in _LINES.items():
            sizes = [cells[tasks, examples, spread].mean(method) for examples in EXAMPLES]
            panel.plot(
                EXAMPLES,
                sizes,
                line,
                color=colour,
                marker=marker,
                linewidth=width,
                markersize=5,
                label=_LABELS.get(method, method),
                zorder=3 if method in ("joint", BEST) else 2,
            )
        panel.set_xscale("log")
        panel.set_xticks([30, 100, 300, 1000, 2500], ["30", "100", "300", "1,000", "2,500"])
        panel.minorticks_off()
        panel.set_ylim(0.8, 5.1)
        panel.set_title(f"{_TITLES[spread]} (spread {spread:g})", fontsize=11)
        panel.set_xlabel("examples per task")
        panel.grid(axis="y", color="#dddddd", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        if panel is not panels[0]:
            panel.tick_params(labelleft=False)
    panels[0].set_ylabel("mean set size, of 5 labels")
    handles, labels = panels[0].get_legend_handles_labels()
    order = [labels.index(x) for x in labels if x != "ideal"] + [labels.index("ideal")]
    figure.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside upper center",
        ncols=5,
        frameon=False,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    follow_palette(path)


def rewrite(text: str, parts: dict[str, str]) -> str:
    """Return the page with each part inserted between its markers."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        head, _, rest = text.partition(begin)
        _, marker, tail = rest.partition(end)
        if not marker:
            raise ValueError(f"{PAGE} has no markers {begin} and {end}.")
        text = f"{head}{begin}\n{part}\n{end}{tail}"
    return text


def main(draws: int = DRAWS) -> None:
    start = time.perf_counter()
    check_against_the_library()
    cells = simulate_grid(draws)
    claims = check_claims(cells)
    parts = {
        "claims": "\n".join(f"- {claim.text}" for claim in claims),
        "tables": format_large_tables(cells, draws),
        "few": format_few_table(100 * draws),
        "uneven": format_uneven_table(draws),
    }
    print("\n\n".join(parts.values()))
    text = rewrite(PAGE.read_text(), parts)
    with replacing(PAGE) as file:
        file.write(text)
    draw(cells, 500, PICTURE)
    print(f"\n{time.perf_counter() - start:.0f} s")
    for claim in claims:
        print("holds: " if claim.holds else "FAILS: ", claim.text)
    if not all(claim.holds for claim in claims):
        raise SystemExit(1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
