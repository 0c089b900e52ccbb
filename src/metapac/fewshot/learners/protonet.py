"""Prototypical networks: a label's score is the distance to the mean of its examples.

A prototype is a mean of pool embeddings, so every distance to it consists of inner products of
pool embeddings. With their Gram matrix at hand, scoring a task adds up a few of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from metapac._common import Array, Counts, Floats
from metapac.errors import InvalidInput
from metapac.fewshot.adapters import BoundedScorer, as_support_set, count_examples, lower_scores
from metapac.fewshot.learners.networks import describe_module
from metapac.fewshot.tasks import (
    Task,
    TaskBatch,
    batches,
    check_one_support_size,
    check_pool_of_task,
)

BATCH = 1024


@contextmanager
def eval_mode(module: nn.Module, *, fast: bool = False) -> Iterator[None]:
    """Put ``module`` in eval mode, without gradients; restore the mode of each part at the end.

    On a GPU, ``fast`` allows TF32, which has only 3 digits; the last ones depend on the batch size.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        device = _reference_tensor(module).device
        precision = "high" if fast else "highest"
        with torch.no_grad(), cuda_math(device, precision, allow_tf32=fast):
            yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def cuda_math(device: torch.device, precision: str, **flags: bool) -> Iterator[None]:
    """On a GPU, set cuDNN flags and the precision of matrix products; restore them at the end."""
    if device.type != "cuda":
        yield
        return
    old_precision = torch.get_float32_matmul_precision()
    old_flags = {name: getattr(torch.backends.cudnn, name) for name in flags}
    _set_cuda_math(precision, flags)
    try:
        yield
    finally:
        _set_cuda_math(old_precision, old_flags)


def _set_cuda_math(precision: str, flags: Mapping[str, bool]) -> None:
    for name, value in flags.items():
        setattr(torch.backends.cudnn, name, value)
    torch.set_float32_matmul_precision(precision)


def iter_batches(x: Any, module: nn.Module, batch: int = BATCH) -> Iterator[Tensor]:
    """Yield ``x`` in batches on the module's device; no examples make one empty batch."""
    array = x if isinstance(x, Tensor) or hasattr(x, "shape") else np.asarray(x)
    for start in range(0, max(count_examples(array), 1), batch):
        yield to_module_device(array[start : start + batch], module)


def to_module_device(x: Any, module: nn.Module) -> Tensor:
    """Return ``x`` on the module's device, floats in the module's precision."""
    reference = _reference_tensor(module)
    tensor = x if isinstance(x, Tensor) else torch.as_tensor(_torch_compatible(x))
    return tensor.to(reference.device, reference.dtype if tensor.is_floating_point() else None)


def _reference_tensor(module: nn.Module) -> Tensor:
    """Return a tensor with the device and the precision of the module."""
    return next(iter(module.parameters()), torch.empty(0))


def _torch_compatible(x: Any) -> Array:
    """Return numbers as torch takes them: contiguous, writable, in native byte order."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"x must hold numbers, got {array.dtype}. A torch learner takes float or uint8 arrays, "
            "or whole numbers for a SentenceCNN."
        )
    return np.require(array, array.dtype.newbyteorder("="), ["C", "W"])


def check_example_type(module: nn.Module, call: Callable[..., Any], *examples: Tensor) -> None:
    """Raise InvalidInput if a call fails on whole numbers and works on floats."""
    whole = {x.dtype for x in examples if not x.is_floating_point()}
    if not whole or _works(module, call, *examples):
        return
    floats = [x.to(_reference_tensor(module).dtype) for x in examples]
    if not _works(module, call, *floats):  # it fails for another reason
        return
    kind = str(whole.pop()).removeprefix("torch.")
    raise InvalidInput(
        f"the backbone takes floats, and the examples are {kind}. Begin its forward with "
        f"x.float(){' / 255' if kind == 'uint8' else ''}, or pass examples as floats."
    )


def _works(module: nn.Module, call: Callable[..., Any], *examples: Tensor) -> bool:
    try:
        with eval_mode(module):
            call(*examples)
    except RuntimeError:
        return False
    return True


def worst_case_scores(logits: Tensor, labels: Tensor) -> Floats:
    """Return the scores to calibrate on: softmax of worst-case float64 logits at ``labels``.

    Shapes: (T, classes, ...), (T, ...) -> flat scores. A softmax rises with the logit of the true
    label and falls with any other, so the worst case is lowest there and highest elsewhere.
    """
    true = logits.softmax(1).gather(1, labels.unsqueeze(1))
    return lower_scores(true.flatten().cpu().numpy(), precision=np.float32)


# Rounding error of an embedding relative to its length: 16 float32 epsilons, or 1.9e-6.
# Measured over MLP, Conv4, ResNet12 and ResNet50: batch sizes from 1 to 1024 move an embedding by
# at most 8.0e-7 (CPU, and H200 without TF32), a change from CPU to GPU by 1.0e-6, a ResNet50 by
# 2.3e-6. Distances of trained networks moved by at most 6 % of what distance_error allows.
EMBEDDING_ERROR = 2.0**-19


def prototype_logits(support_z: Tensor, support_y: Tensor, query_z: Tensor, classes: int) -> Tensor:
    """Return minus the squared Euclidean distance of each query to each label's prototype.

    A prototype is the mean of the support embeddings of a label.

    Computed in float32 at least, with autocast or without. Embeddings far from the origin lose no
    digits: the support mean is subtracted first, which changes no distance but makes the sums
    behind the prototypes small, and distances are sums of squared differences, not
    ``|q|^2 - 2 q.p + |p|^2``, whose large terms would cancel. No difference is rounded to TF32, as
    a matrix product may be.
    """
    precision = torch.promote_types(support_z.dtype, torch.float32)
    with torch.autocast(support_z.device.type, enabled=False):
        support_z, query_z = support_z.to(precision), query_z.to(precision)
        centre = support_z.mean(1, keepdim=True).detach()  # (E, 1, d)
        labels = torch.arange(classes, device=support_y.device)
        belongs = (support_y.unsqueeze(-1) == labels).to(precision)  # (E, S, classes)
        counts = belongs.sum(1)  # (E, classes)
        sums = belongs.mT @ (support_z - centre)  # (E, classes, d)
        prototypes = sums / counts.clamp(min=1).unsqueeze(-1)  # (E, classes, d)
        differences = (query_z - centre).unsqueeze(2) - prototypes.unsqueeze(1)
        distances = differences.square().sum(-1)  # (E, Q, classes)
        return torch.where(counts.unsqueeze(1) > 0, -distances, -torch.inf)


def worst_case_logits(logits: Tensor, labels: Tensor, error: Tensor) -> Tensor:
    """Return the logits that are worst for the true labels within an error of the distances."""
    distances = (-logits).clamp_(min=0).sqrt_()  # (T, classes, Q)
    farther = distances.gather(1, labels.unsqueeze(1)).add_(error.unsqueeze(1))  # (T, 1, Q)
    nearer = distances.sub_(error.unsqueeze(1)).clamp_(min=0)
    return nearer.scatter_(1, labels.unsqueeze(1), farther).square_().neg_()


def logit_error(logits: Tensor, error: Tensor) -> Tensor:
    """Return a bound on the error of each logit, from that of the distances."""
    distances = torch.where(logits.isfinite(), -logits, 0.0).clamp(min=0).sqrt()
    return (2 * distances.amax(1) + error) * error


def distance_error(query_norms: Tensor, support_norms: Tensor, width: int) -> Tensor:
    """Return a bound on the rounding error of a distance to a prototype.

    Let r be the largest length involved. Query and prototype each move by at most
    ``EMBEDDING_ERROR`` times r, and by the triangle inequality the distance moves by at most the
    sum of both. In addition, |q|^2 - 2 q.p + |p|^2 consists of sums of ``terms`` products of
    lengths up to r, so that float64 computes it with an error of at most 4 terms 2^-53 r^2, and
    its root with an error of at most 2 sqrt(terms 2^-53) r.
    """
    reach = query_norms.maximum(support_norms.amax(-1, keepdim=True))  # (T, Q)
    terms = width + 2 * support_norms.shape[-1] + 8
    return 2 * reach * (EMBEDDING_ERROR + math.sqrt(terms * 2.0**-53))


def norms(z: Tensor) -> Tensor:
    """Return the length of each embedding in float64."""
    lengths: Tensor = torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64)
    return lengths


GIB = 2**30
# Size of the workspace in numbers: what fits in the cache of a CPU, what keeps a GPU busy.
_WORK = {"cpu": 2**20, "cuda": 2**28}
# Reading whole rows of the Gram matrix takes as long as looking up one number in this many.
_FEW = 4


class PrototypeBank:
    """The embeddings of a pool, computed once for all of its tasks."""

    thread_safe = True

    def __init__(
        self, embeddings: Tensor | NDArray[Any], x: Any = None, *, memory: int = 8 * GIB
    ) -> None:
        z = torch.as_tensor(embeddings).float()
        bad = (~z.isfinite()).any(-1).nonzero().flatten().tolist()
        if bad:  # the mean over the pool would spread it to all
            raise InvalidInput(
                f"{len(bad)} of {len(z)} examples of the pool have embeddings that are not finite "
                f"(first at position {bad[0]}). Check x for NaN, and that training did not diverge."
            )
        self.embeddings = z  # (n, d)
        self.x = x
        fits = 8 * len(z) ** 2 <= memory
        self.gram = gram_matrix(z) if fits else None  # (n, n)
        self.norms = norms(z)  # (n,)
        if self.gram is not None:  # of centred vectors, which may be longer or shorter
            self.norms = self.norms.maximum(self.gram.diagonal().sqrt())

    def scores(self, tasks: Sequence[Task]) -> Floats:
        """Return the scores of the true labels of all queries, to calibrate on."""
        parts = [self._lowered_scores(batch) for batch in self._batches(tasks)]
        return np.concatenate(parts or [np.empty(0, np.float32)])

    def leave_one_out(self, tasks: Sequence[Task]) -> NDArray[np.float32]:
        """Return the probability of each support example's label when the example is left out."""
        if not isinstance(tasks, TaskBatch) or not len(tasks):
            check_one_support_size(tasks)
        parts = []
        for batch in self._batches(tasks, query="support"):
            rows = self._rows(batch)
            logits = self._logits(rows, batch.classes)  # (T, classes, S)
            parts.append(leave_one_out_probabilities(logits, rows.support_y).float())
        return torch.cat(parts).cpu().numpy()

    def predict_proba(self, task: Task) -> NDArray[np.float32]:
        """Return the probability of each label for each query of a task."""
        return self.predict_tasks([task])[0]

    def predict_tasks(self, tasks: Sequence[Task]) -> list[NDArray[np.float32]]:
        """Return the probability of each label for each query of each task."""
        tables: list[NDArray[np.float32]] = []
        for batch in self._batches(tasks):
            logits = self._logits(self._rows(batch), batch.classes)
            probabilities = logits.softmax(1).mT  # (T, Q, classes)
            tables.extend(probabilities.float().cpu().numpy())
        return tables

    def bounded_logits(self, tasks: Sequence[Task]) -> list[tuple[Floats, Floats]]:
        """Return the logits of the queries of each task, and a bound on their rounding error."""
        pairs: list[tuple[Floats, Floats]] = []
        for batch in self._batches(tasks):
            rows = self._rows(batch)
            logits = self._logits(rows, batch.classes)  # (T, classes, Q)
            error = logit_error(logits, self._distance_error(rows))  # (T, Q)
            pairs.extend(zip(logits.mT.cpu().numpy(), error.cpu().numpy(), strict=True))
        return pairs

    def _batches(self, tasks: Iterable[Task], query: str = "query") -> Iterator[TaskBatch]:
        """Yield consecutive tasks of one shape, as many as fit in the workspace."""
        work = _WORK.get(self.embeddings.device.type, _WORK["cpu"])
        for batch in batches(tasks, self._check, query=query):
            yield from batch.split(max(1, work // self._floats(batch)))

    def _check(self, task: Task) -> None:
        check_pool_of_task(task, self.x, len(self.embeddings))

    def _floats(self, batch: TaskBatch) -> int:
        """Return how many numbers the logits of one task take to compute."""
        (n, width), classes = self.embeddings.shape, batch.classes
        shots, queries = len(batch.support[0]), len(batch.query[0])
        if self.gram is None:
            return (shots + queries * (1 + classes)) * width
        columns = shots + queries
        if _FEW * columns < n:
            return (shots + classes) * columns
        return classes * (n + columns)

    def _lowered_scores(self, batch: TaskBatch) -> Floats:
        """Return the calibration scores of tasks of one shape, (T * Q,)."""
        rows, true = self._rows(batch), self._tensor(batch.query_y)  # (T, Q)
        logits = self._logits(rows, batch.classes)
        worst = worst_case_logits(logits, true, self._distance_error(rows))
        scores = worst.softmax(1).gather(1, true.unsqueeze(1)).flatten().float()
        # Rounded down, as `metapac.fewshot.adapters.lower_scores` does, but on the device.
        return np.asarray(scores.nextafter(scores.new_zeros(())).cpu().numpy())

    def _logits(self, rows: _Rows, classes: int) -> Tensor:
        """Return the float64 logits of all labels, (T, classes, Q)."""
        support, support_y, query = rows
        if self.gram is not None:
            return gram_logits(self.gram, support, support_y, query, classes)
        z = self.embeddings
        return prototype_logits(z[support].double(), support_y, z[query].double(), classes).mT

    def _distance_error(self, rows: _Rows) -> Tensor:
        """Return the bound on the error of a distance for each query, (T, Q)."""
        norms, width = self.norms, self.embeddings.shape[1]
        return distance_error(norms[rows.query], norms[rows.support], width)

    def _rows(self, batch: TaskBatch) -> _Rows:
        return _Rows(*map(self._tensor, (batch.support, batch.support_y, batch.query)))

    def _tensor(self, rows: Counts) -> Tensor:
        """Return rows of a batch on the device; a row that all tasks share is sent once."""
        sent = np.require(rows[:1] if rows.strides[0] == 0 else rows, np.int64, ["C", "W"])
        return torch.from_numpy(sent).to(self.embeddings.device).expand(len(rows), -1)


class _Rows(NamedTuple):
    """What logits of tasks of one shape depend on, on the device."""

    support: Tensor  # (T, S)
    support_y: Tensor  # (T, S)
    query: Tensor  # (T, Q)


def gram_matrix(z: Tensor) -> Tensor:
    """Return the inner products of centred embeddings in float64.

    Distances are differences of inner products. float32 would lose the digits that distinguish
    two prototypes far from the origin; centring changes no distance and saves more digits.
    """
    wide = z.double()
    wide = wide - wide.mean(0)
    return wide @ wide.T


def gram_logits(
    gram: Tensor, support: Tensor, support_y: Tensor, query: Tensor, classes: int
) -> Tensor:
    """Return prototype logits computed from inner products alone."""
    tasks, queries = query.shape
    bags = (support_y + classes * torch.arange(tasks, device=gram.device)[:, None]).flatten()
    counts = torch.bincount(bags, minlength=tasks * classes)  # (T * classes,)
    order, offsets = bags.argsort(stable=True), counts.cumsum(0) - counts
    columns = torch.cat([query, support], 1)  # (T, Q + S)
    sums = _sum_products(gram, support, columns, order, offsets)
    counts = counts.view(tasks, -1, 1)
    products = sums.div_(counts.clamp(min=1))  # with each prototype, (T, classes, Q + S)
    own = products[:, :, queries:].gather(1, support_y.unsqueeze(1))  # s.p, (T, 1, S)
    squares = embedding_bag(order, own.view(-1, 1), offsets, mode="mean")  # the mean of s.p is p.p
    lengths = gram.diagonal().contiguous()[query]  # lookups in the diagonal itself are slow
    logits = (2 * products[:, :, :queries]).sub_(squares.view(tasks, -1, 1))
    return logits.sub_(lengths.unsqueeze(1)).masked_fill_(counts == 0, -torch.inf)


def _sum_products(
    gram: Tensor, support: Tensor, columns: Tensor, order: Tensor, offsets: Tensor
) -> Tensor:
    """Return sums of inner products of columns with a label's support, (T, classes, columns).

    The label's examples are ``order`` from its offset to the next; no examples give zeros.
    """
    tasks, width = columns.shape
    classes = len(offsets) // tasks
    if _FEW * width < len(gram):  # look up what is needed
        needed = gram[support.unsqueeze(2), columns.unsqueeze(1)]  # (T, S, columns)
        sums = embedding_bag(order, needed.flatten(0, 1), offsets, mode="sum")
        return sums.view(tasks, classes, width)
    rows = embedding_bag(support.flatten()[order], gram, offsets, mode="sum")  # (T * classes, n)
    index = columns.unsqueeze(1).expand(-1, classes, -1)
    return rows.view(tasks, classes, -1).gather(2, index)


def leave_one_out_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the probability of each support example's label when the example is left out.

    Without s, the prototype of n examples moves from p to (n p - s) / (n - 1), which is
    n / (n - 1) times as far from s. The prototypes of other labels do not move.
    """
    others = (labels.unsqueeze(1) == labels.unsqueeze(2)).sum(1).to(logits.dtype) - 1  # (T, S)
    whole = logits.gather(1, labels.unsqueeze(1)).squeeze(1)  # (T, S)
    apart = whole * ((others + 1) / others.clamp(min=1)).square()
    changed = logits.scatter(1, labels.unsqueeze(1), apart.unsqueeze(1))
    probabilities = changed.softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return torch.where(others > 0, probabilities, 0.0)


# Differences held at a time when scoring: 2**23 doubles are 64 MiB.
_DIFFERENCES = 2**23


class ProtoNet:
    """Metric-based meta-learner: softmax over minus squared distances to the prototypes.

    The prototype of a label is the mean embedding of its support examples. Labels may have
    different numbers of them.

    Parameters
    ----------
    backbone : torch.nn.Module
        Any module from examples to vectors.

    Attributes
    ----------
    module : torch.nn.Module
        The backbone.

    Raises
    ------
    InvalidInput
        If a batch norm of the backbone has no running statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import MLP, ProtoNet
    >>> learner = ProtoNet(MLP(2, rng=0))
    >>> scorer = learner.adapt(np.eye(2), [0, 1], classes=3)
    >>> probabilities = scorer.predict_proba(np.eye(2))
    >>> probabilities.argmax(axis=1).tolist(), probabilities[:, 2].tolist()
    ([0, 1], [0.0, 0.0])
    """

    def __init__(self, backbone: nn.Module) -> None:
        for name, part in backbone.named_modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
                raise InvalidInput(
                    "backbone must not normalise each batch separately, since scores would then "
                    f"depend on each other, got {name or type(part).__name__} without running "
                    "statistics. Use track_running_stats=True."
                )
        self.module = backbone

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes.

        Parameters
        ----------
        support_x : Tensor, shape (episodes, s, ...)
            Support examples.
        support_y : Tensor of int, shape (episodes, s)
            Their labels.
        query_x : Tensor, shape (episodes, q, ...)
            Query examples.
        classes : int
            Number of labels.

        Returns
        -------
        Tensor, shape (episodes, q, classes)
            The logits; see `prototype_logits`.
        """
        episodes, shots = support_y.shape
        x = torch.cat([support_x, query_x], dim=1)  # (E, S + Q, ...)
        z = self.module(x.flatten(0, 1)).unflatten(0, (episodes, -1))  # (E, S + Q, d)
        return prototype_logits(z[:, :shots], support_y, z[:, shots:], classes)

    def embed(self, x: Any, batch: int = BATCH, *, fast: bool = False) -> Tensor:
        """Return embeddings, computed in eval mode.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples. Whole numbers, such as uint8 pixels, reach the backbone as they are.
        batch : int, default 1024
            Number of examples embedded at a time.
        fast : bool, default False
            On a GPU, compute with three digits (TF32), which can be several times faster. Embed
            the examples to calibrate on and the new ones in the same way.

        Returns
        -------
        Tensor, shape (n, d)
            The embeddings in float32, on the module's device.

        Raises
        ------
        InvalidInput
            If the examples are whole numbers, and the backbone takes floats.
        """
        with eval_mode(self.module, fast=fast):
            batches = iter_batches(x, self.module, batch)
            return torch.cat([self._embed(part) for part in batches])

    def bank(self, x: Any) -> PrototypeBank:
        """Return the embeddings of a pool, from which its tasks are scored.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Data of the pool.

        Returns
        -------
        PrototypeBank
            The embeddings.
        """
        return PrototypeBank(self.embed(x), x)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> PrototypeScorer:
        """Return the model adapted to a task.

        Parameters
        ----------
        support_x : array_like, shape (s, ...)
            Support examples.
        support_y : array_like of int, shape (s,)
            Their labels, from 0 to ``classes - 1``.
        classes : int, optional
            Number of labels; by default one more than the largest label.

        Returns
        -------
        PrototypeScorer
            The adapted model; it shares the backbone, so later training makes it invalid.
        """
        labels, total = as_support_set(support_x, support_y, classes)
        z = self.embed(support_x)  # (S, d)
        return PrototypeScorer(self, z, to_module_device(labels, self.module), total)

    def describe(self) -> dict[str, Any]:
        """Return the architecture, which files of weights record.

        Returns
        -------
        dict
            What JSON can hold.
        """
        return {"class": "ProtoNet", "backbone": describe_module(self.module)}

    def _embed(self, x: Tensor) -> Tensor:
        """Return the embeddings of one batch in float32."""
        try:
            z: Tensor = self.module(x)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            check_example_type(self.module, self.module, x)
            raise
        return z.float()


@dataclass(frozen=True, eq=False)
class PrototypeScorer(BoundedScorer):
    """A ProtoNet adapted to one task."""

    learner: ProtoNet
    support_z: Tensor
    support_y: Tensor
    classes: int

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        probabilities = self._logits(self.learner.embed(x)).softmax(0).T
        return np.asarray(probabilities.float().cpu().numpy())

    def lowered_scores(self, x: Any, y: Any) -> Floats:
        z = self.learner.embed(x)  # (n, d)
        labels = to_module_device(y, self.learner.module).to(torch.int64)[None]  # (1, n)
        worst = worst_case_logits(self._logits(z)[None], labels, self._distance_error(z))
        return worst_case_scores(worst, labels)

    def bounded_logits(self, x: Any) -> tuple[Floats, Floats]:
        z = self.learner.embed(x)  # (n, d)
        logits = self._logits(z)  # (classes, n)
        error = logit_error(logits[None], self._distance_error(z))[0]
        return logits.T.cpu().numpy(), error.cpu().numpy()

    def _distance_error(self, z: Tensor) -> Tensor:
        """Return a bound on the error of a distance of embeddings, (n, d) -> (1, n)."""
        return distance_error(norms(z)[None], norms(self.support_z)[None], z.shape[1])

    def _logits(self, z: Tensor) -> Tensor:
        """Return the float64 logits of embeddings, (n, d) -> (classes, n)."""
        rows = max(1, _DIFFERENCES // (self.classes * max(1, z.shape[1])))
        support = self.support_z[None].double(), self.support_y[None]
        parts = [
            prototype_logits(*support, part[None].double(), self.classes)[0]
            for part in torch.split(z, rows)
        ]
        return torch.cat(parts).T
