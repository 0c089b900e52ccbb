"""Draw the three pictures of the documentation as SVG: python experiments/pictures.py.

Their colours are variables: light or dark by the reader's system, or by the palette of the site,
which puts them into its pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metapac import MetaPS, load_heart_sites, set_sizes
from metapac._common import Floats

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 560
STYLE = """
  .picture { --ink: #212121; --soft: #5f6368; --good: #00695c; --bad: #b3400e; --band: #fbeee6;
    --line: #c8c8c8; font: 15px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  @media (prefers-color-scheme: dark) { .picture { --ink: #e8e8e8; --soft: #b0b4b8; --good: #4db6ac;
    --bad: #ff9e6d; --band: #3a2a22; --line: #5c6066; } }
  .picture .ink { fill: var(--ink); } .picture .soft { fill: var(--soft); }
  .picture .good { fill: var(--good); } .picture .bad { fill: var(--bad); }
  .picture .band { fill: var(--band); } .picture .bold { font-weight: 600; }
  .picture .line { stroke: var(--line); } .picture .axis { stroke: var(--ink); }
  .picture .limit { stroke: var(--bad); stroke-dasharray: 5 4; stroke-width: 1.5; }
  .picture .tick { stroke: var(--good); stroke-width: 2.5; }
  .picture .ring { fill: none; stroke: var(--bad); stroke-width: 2.5; }
  .picture .dots { stroke: var(--soft); stroke-width: 3.2; stroke-linecap: round; }
  .picture .chip { fill: none; stroke: var(--ink); }
"""


def main() -> None:
    """Write the pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, svg in draw_all().items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


def draw_all() -> dict[str, str]:
    """Return the pictures by name."""
    survey = Survey()
    return {"sites": draw_sites(survey), "sets": draw_sets(survey), "steps": draw_steps()}


class Survey:
    """The shipped survey, with the scores of one model."""

    def __init__(self) -> None:
        sites = load_heart_sites()
        model = make_pipeline(StandardScaler(), LogisticRegression())
        model.fit(sites.train[sites.features], sites.train["attack"])
        self.classes = model.classes_
        self.known, self.new = sites.calibration, sites.new
        self.scores = model.predict_proba(self.known[sites.features])
        self.new_scores = model.predict_proba(self.new[sites.features])

    def calibrate(self, **levels: Any) -> MetaPS:
        """Return a predictor with a guarantee for new states."""
        labels = self.known["attack"]
        predictor = MetaPS(alpha=0.2, delta=0.05, **levels)
        return predictor.calibrate(self.scores, self.known["state"], labels, classes=self.classes)

    def pooled_threshold(self, epsilon: float) -> float:
        """Return the threshold of split conformal prediction: a quantile over all states."""
        true = np.sort(self.scores[np.arange(len(self.known)), self._codes(self.known)])
        return float(true[int(epsilon * (len(true) + 1)) - 1])

    def miss_rates(self, threshold: float) -> Floats:
        """Return the miss rates of new states, sorted."""
        scores = self.new_scores[np.arange(len(self.new)), self._codes(self.new)]
        rates = (self.new.assign(missed=scores < threshold)).groupby("state")["missed"].mean()
        return np.sort(rates.to_numpy())

    def _codes(self, people: Any) -> Any:
        return (people["attack"] == "yes").to_numpy().astype(int)


def draw_sites(survey: Survey) -> str:
    """Draw average against sites: a dot for the miss rate of each new state."""
    epsilon, top, bottom, scale = 0.05, 62, 262, 200 / 7
    predictor = survey.calibrate(epsilon=epsilon)
    panels = (
        ("Standard conformal", survey.pooled_threshold(epsilon), 44),
        ("metapac", predictor.threshold_, 312),
    )
    parts = []
    for title, threshold, left in panels:
        rates = survey.miss_rates(threshold)
        over, right = int(np.sum(rates > epsilon)), left + 236
        limit = bottom - 100 * epsilon * scale
        parts += [
            text(left, 20, title, "ink bold"),
            text(
                left,
                42,
                f"{over} of {len(rates)} states miss over {epsilon:.0%}",
                "bad" if over else "good",
            ),
            f'<rect class="band" x="{left}" y="{top}" width="236" height="{limit - top:.1f}"/>',
            line(left, limit, right, limit, "limit"),
            line(left, bottom, right, bottom, "axis"),
            text(left + 6, limit - 8, f"over {epsilon:.0%} missed", "soft"),
        ]
        for i, rate in enumerate(rates):
            x, y = left + 8 + 10 * i, bottom - 100 * rate * scale
            parts.append(diamond(x, y) if rate > epsilon else circle(x, y, 4.5, "good"))
        parts += [text((left + right) / 2, 282, f"{len(rates)} new states", "soft", "middle")]
    parts += [
        text(36, bottom - 100 * rate * scale + 5, f"{rate:.0%}", "soft", "end")
        for rate in (0, epsilon)
    ]
    return svg(290, parts)


def draw_sets(survey: Survey) -> str:
    """Draw three patients with their sets, and how many get an answer."""
    predictor = survey.calibrate(epsilon=0.1, per_class=True)
    answered = float(np.mean(set_sizes(predictor.predict_set(survey.new_scores)) == 1))
    people = (
        (("no",), "an answer"),
        (("no", "yes"), "ask a doctor"),
        (("yes",), "an answer"),
    )
    parts = [text(WIDTH / 2, 20, "Heart attack?", "ink bold", "middle")]
    for i, (labels, words) in enumerate(people):
        x = 93 + 187 * i
        parts += [circle(x, 56, 13, "soft"), f'<path class="soft" d="{shoulders(x, 104)}"/>']
        start = x - 30 * len(labels)
        for j, label in enumerate(labels):
            left = start + 60 * j + 4
            parts += [
                f'<rect class="chip" x="{left}" y="120" width="52" height="28" rx="14"/>',
                text(left + 26, 139, label, "ink bold", "middle"),
            ]
        parts.append(text(x, 172, words, "soft" if len(labels) == 1 else "bad", "middle"))
    width, rest = 520 * answered, 520 * (1 - answered)
    parts += [
        f'<rect class="good" x="20" y="196" width="{width:.1f}" height="22"/>',
        f'<rect class="line band" x="{20 + width:.1f}" y="196" width="{rest:.1f}" height="22"/>',
        text(20, 240, f"{answered:.0%} answered", "good bold"),
        text(540, 240, f"{1 - answered:.0%} referred to a person", "bad bold", "end"),
    ]
    return svg(252, parts)


def draw_steps() -> str:
    """Draw the two steps: a tick on the scores of each site, and one of all ticks."""
    rng = np.random.default_rng(3)
    sites, examples = 20, 60
    skill = rng.normal(0.66, 0.06, size=sites)
    scores = np.clip(rng.normal(skill[:, None], 0.11, size=(sites, examples)), 0.02, 0.98)
    method = MetaPS(epsilon=0.1, alpha=0.2, delta=0.05, split="tight")
    method.calibrate(scores.ravel(), np.arange(sites).repeat(examples))
    ticks = method.task_thresholds_.ravel()
    x = 20 + 520 * scores
    parts = [text(20, 18, f"Scores at {sites} sites, each with its own threshold", "ink bold")]
    for i in range(sites):
        y = 34 + 11.5 * i
        dots = "".join(f"M{value:.1f} {y:.1f}h0" for value in x[i])
        parts.append(f'<path class="dots" d="{dots}"/>')
        parts.append(line(20 + 520 * ticks[i], y - 5, 20 + 520 * ticks[i], y + 5, "tick"))
    base, chosen = 288, 20 + 520 * method.threshold_
    parts += [line(20, base, 540, base, "axis")]
    parts += [line(20 + 520 * tick, base - 7, 20 + 520 * tick, base + 7, "tick") for tick in ticks]
    parts += [
        f'<circle class="ring" cx="{chosen:.1f}" cy="{base}" r="13"/>',
        text(chosen, base + 32, "the threshold", "bad bold", "middle"),
        text(540, base + 32, "score of the true label", "soft", "end"),
    ]
    return svg(330, parts)


def svg(height: int, parts: list[str]) -> str:
    """Return a picture."""
    size = f'viewBox="0 0 {WIDTH} {height}"'
    body = "\n".join(["", f"<style>{STYLE}</style>", *parts, "</svg>", ""])
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" {size}>' + body


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """Return words."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def circle(x: float, y: float, radius: float, kind: str) -> str:
    """Return a filled circle."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def diamond(x: float, y: float) -> str:
    """Return a diamond, for what is above the limit: not told by its colour alone."""
    points = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y:.1f} {x:.1f},{y + 6:.1f} {x - 6:.1f},{y:.1f}"
    return f'<polygon class="bad" points="{points}"/>'


def shoulders(x: float, y: float) -> str:
    """Return the path of a person below the head."""
    return f"M {x - 24} {y} a 24 28 0 0 1 48 0 z"


if __name__ == "__main__":
    main()
