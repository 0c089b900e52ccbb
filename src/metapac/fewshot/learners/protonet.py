"""Prototypical networks: a label's score is the distance to the mean of its examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from metapac._common import Array, Counts, Floats
from metapac.errors import InvalidInput
from metapac.fewshot import tasks as few_shot
from metapac.fewshot.adapters import (
    BATCH,
    ROUNDS,
    Learner,
    as_support_set,
    count_examples,
    guess_temperature,
)
from metapac.fewshot.learners.networks import describe_module
from metapac.fewshot.tasks import Task, TaskBatch

POOL_BATCH = 1024
# Examples that an adapted model embeds at a time. On a CPU one by one: in larger batches, even of
# one size, a matrix product may depend on the position of a row (with MKL, in layers whose width is
# no multiple of 4). One by one was as fast for Conv4 and ResNet12 on two cores. A GPU needs more.
_ROWS = {"cpu": 1, "cuda": 32}


@contextmanager
def eval_mode(module: nn.Module, *, fast: bool = False) -> Iterator[None]:
    """Put ``module`` in eval mode without gradients for a while; ``fast`` allows TF32 on a GPU."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        precision = "high" if fast else "highest"
        with torch.no_grad(), cuda_math(_reference(module).device, precision, allow_tf32=fast):
            yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def cuda_math(device: torch.device, precision: str, **flags: bool) -> Iterator[None]:
    """On a GPU, set cuDNN flags and the precision of matrix products; restore them at the end."""
    with ExitStack() as stack:
        if device.type == "cuda":
            cudnn, set_precision = torch.backends.cudnn, torch.set_float32_matmul_precision
            stack.callback(set_precision, torch.get_float32_matmul_precision())
            set_precision(precision)
            for name, value in flags.items():
                stack.callback(setattr, cudnn, name, getattr(cudnn, name))
                setattr(cudnn, name, value)
        yield


def in_batches(
    function: Callable[[Tensor], Tensor], x: Any, module: nn.Module, batch: int = BATCH
) -> Tensor:
    """Return a function of ``x``, computed in batches of one size on the module's device."""
    array = x if hasattr(x, "shape") else np.asarray(x)
    parts = []
    for start in range(0, max(count_examples(array), 1), batch):  # no examples: one empty batch
        part = to_module_device(array[start : start + batch], module)
        missing = batch - len(part) if len(part) else 0
        filled = torch.cat([part, part[-1:].expand(missing, *part.shape[1:])])
        parts.append(function(filled)[: len(part)])
    return torch.cat(parts)


def to_module_device(x: Any, module: nn.Module) -> Tensor:
    """Return ``x`` on the module's device, floats in the module's precision."""
    reference = _reference(module)
    tensor = x if isinstance(x, Tensor) else torch.as_tensor(_torch_compatible(x))
    return tensor.to(reference.device, reference.dtype if tensor.is_floating_point() else None)


def _reference(module: nn.Module) -> Tensor:
    return next(iter(module.parameters()), torch.empty(0))


def _torch_compatible(x: Any) -> Array:
    """Return numbers as torch takes them: contiguous, writable, in native byte order."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"x must hold numbers, as floats or whole numbers, got {array.dtype}.")
    if min(array.strides, default=0) < 0:  # a single row counts as contiguous all the same
        array = array.copy()
    return np.require(array, array.dtype.newbyteorder("="), ["C", "W"])


@contextmanager
def explain_failures(check: Callable[[], object]) -> Iterator[None]:
    """Call a check, whose error says more, if torch fails."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        with suppress(RuntimeError):  # a GPU may fail again; the first error says more
            check()
        raise


def check_example_type(module: nn.Module, call: Callable[..., Any], *examples: Tensor) -> None:
    """Raise InvalidInput if a call fails on whole numbers and works on floats."""
    whole = {x.dtype for x in examples if not x.is_floating_point()}

    def works(*examples: Tensor) -> bool:
        try:
            with eval_mode(module):
                call(*examples)
        except RuntimeError:
            return False
        return True

    floats = [x.to(_reference(module).dtype) for x in examples]
    if whole and not works(*examples) and works(*floats):
        kind = str(whole.pop()).removeprefix("torch.")
        remedy = f"Begin its forward with x.float(){' / 255' if kind == 'uint8' else ''}"
        raise InvalidInput(f"the backbone takes floats, and the examples are {kind}. {remedy}.")


# Rounding error of an embedding relative to its length that a bank allows for: 16 float32 epsilons.
# Measured over MLP, Conv4, ResNet12 and ResNet50: batch sizes from 1 to 1024 move an embedding by
# at most 8.0e-7 of its length (CPU, and H200 without TF32).
EMBEDDING_ERROR = 2.0**-19


def prototype_logits(support_z: Tensor, support_y: Tensor, query_z: Tensor, classes: int) -> Tensor:
    """Return minus the squared Euclidean distance of each query to each label's prototype."""
    # Far from the origin no digits are lost: differences from the support mean are squared and
    # added up, in float32 at least and without TF32; ``|q|^2 - 2 q.p + |p|^2`` would cancel.
    precision = torch.promote_types(support_z.dtype, torch.float32)
    with torch.autocast(support_z.device.type, enabled=False):
        centre, prototypes, absent = find_prototypes(support_z.to(precision), support_y, classes)
        differences = (query_z.to(precision) - centre).unsqueeze(2) - prototypes.unsqueeze(1)
        distances = differences.square().sum(-1)  # (E, Q, classes)
        return (-distances).masked_fill(absent.unsqueeze(1), -torch.inf)


def find_prototypes(z: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """(E, S, d), (E, S) -> support mean (E, 1, d), centred label means (E, C, d), absent (E, C)."""
    return weigh_prototypes(z, one_hot_labels(y, classes).to(z.dtype))


def one_hot_labels(y: Tensor, classes: int) -> Tensor:
    """Return whether an example has a label, (..., S) -> (..., S, C)."""
    return y.unsqueeze(-1) == torch.arange(classes, device=y.device)


def weigh_prototypes(z: Tensor, belongs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `find_prototypes` does, for how much an example belongs to a label, (E, S, C)."""
    centre = z.mean(1, keepdim=True).detach()
    counts = belongs.sum(1)  # (E, classes)
    sums = belongs.mT @ (z - centre)  # (E, classes, d)
    return centre, sums / counts.clamp(min=1).unsqueeze(-1), counts == 0


def worst_case_logits(logits: Tensor, labels: Tensor, error: Tensor) -> Tensor:
    """Return the logits that are worst for the true labels within an error of the distances."""
    distances = (-logits).clamp_(min=0).sqrt_()  # (T, classes, Q)
    farther = distances.gather(1, labels.unsqueeze(1)).add_(error.unsqueeze(1))  # (T, 1, Q)
    nearer = distances.sub_(error.unsqueeze(1)).clamp_(min=0)
    return nearer.scatter_(1, labels.unsqueeze(1), farther).square_().neg_()


GIB = 2**30
# Size of the workspace in numbers: what fits in the cache of a CPU, what keeps a GPU busy.
_WORK = {"cpu": 2**20, "cuda": 2**28}
# Reading whole rows of the Gram matrix takes as long as looking up one number in this many.
_FEW = 4


def check_embeddings(z: Tensor) -> Tensor:
    """Raise if the embedding of an example is not finite; return the embeddings otherwise."""
    bad = (~z.isfinite()).flatten(1).any(1).nonzero().flatten().tolist()
    if bad:
        text = f"{len(bad)} of {len(z)} examples have embeddings that are not finite"
        raise InvalidInput(f"{text} (first at position {bad[0]}). Check x for NaN.")
    return z


class PrototypeBank:
    """The embeddings of a pool, computed once for all of its tasks: for studies, not deployment."""

    thread_safe = True

    def __init__(
        self, embeddings: Tensor | NDArray[Any], x: Any = None, *, memory: int = 8 * GIB
    ) -> None:
        z = torch.as_tensor(embeddings).float()
        self.embeddings = check_embeddings(z)  # (n, d); their mean would spread NaN to all
        self.x = x
        fits = 8 * len(z) ** 2 <= memory
        self.gram = gram_matrix(z) if fits else None  # (n, n)
        self.norms = torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64)  # (n,)
        if self.gram is not None:  # of centred vectors, which may be longer or shorter
            self.norms = self.norms.maximum(self.gram.diagonal().sqrt())

    def scores(self, tasks: Sequence[Task]) -> Floats:
        """Return the scores of the true labels of all queries, to calibrate on."""
        parts = [self._lowered_scores(batch) for batch in self._batches(tasks)]
        return np.concatenate(parts or [np.empty(0, np.float32)])

    def leave_one_out(self, tasks: Sequence[Task]) -> NDArray[np.float32]:
        """Return the probability of each support example's label when the example is left out."""
        if not isinstance(tasks, TaskBatch) or not len(tasks):
            few_shot.check_one_support_size(tasks)
        parts = []
        for batch in self._batches(tasks, query="support"):
            rows = self._rows(batch)
            logits = self._logits(*rows, batch.classes)  # (T, classes, S)
            parts.append(leave_one_out_probabilities(logits, rows[1]).float())
        return torch.cat(parts).cpu().numpy()

    def predict_proba(self, task: Task) -> NDArray[np.float32]:
        return self.predict_tasks([task])[0]

    def predict_tasks(self, tasks: Sequence[Task]) -> list[NDArray[np.float32]]:
        """Return the probability of each label for each query of each task."""
        tables: list[NDArray[np.float32]] = []
        for batch in self._batches(tasks):
            logits = self._logits(*self._rows(batch), batch.classes)
            tables.extend(logits.softmax(1).mT.float().cpu().numpy())  # (T, Q, classes)
        return tables

    def _batches(self, tasks: Iterable[Task], query: str = "query") -> Iterator[TaskBatch]:
        """Yield consecutive tasks of one shape, as many as fit in the workspace."""
        work = _WORK.get(self.embeddings.device.type, _WORK["cpu"])
        check = partial(few_shot.check_pool_of_task, x=self.x, rows=len(self.embeddings))
        for batch in few_shot.batches(tasks, check, query=query):
            yield from batch.split(max(1, work // self._floats(batch)))

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
        support, support_y, query = self._rows(batch)
        true = self._tensor(batch.query_y)  # (T, Q)
        logits = self._logits(support, support_y, query, batch.classes)
        worst = worst_case_logits(logits, true, self._distance_error(support, query))
        scores = worst.softmax(1).gather(1, true.unsqueeze(1)).flatten().float()
        # Rounded down, since float32 may have rounded up.
        return np.asarray(scores.nextafter(scores.new_zeros(())).cpu().numpy())

    def _logits(self, support: Tensor, support_y: Tensor, query: Tensor, classes: int) -> Tensor:
        """Return the float64 logits of all labels, (T, classes, Q)."""
        if self.gram is not None:
            return gram_logits(self.gram, support, support_y, query, classes)
        z = self.embeddings
        return prototype_logits(z[support].double(), support_y, z[query].double(), classes).mT

    def _distance_error(self, support: Tensor, query: Tensor) -> Tensor:
        """Return a bound on the rounding error of a distance to a prototype, (T, Q)."""
        # Let r be the largest length involved. Query and prototype each move the distance by at
        # most ``EMBEDDING_ERROR`` times r. |q|^2 - 2 q.p + |p|^2 sums ``terms`` products of lengths
        # up to r: float64 errs by at most 4 terms 2^-53 r^2, and in its root by 2 sqrt(terms 2^-53)
        # r.
        reach: Tensor = self.norms[query].maximum(self.norms[support].amax(-1, keepdim=True))
        terms = self.embeddings.shape[1] + 2 * support.shape[-1] + 8
        return 2 * reach * (EMBEDDING_ERROR + math.sqrt(terms * 2.0**-53))

    def _rows(self, batch: TaskBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the support, its labels and the queries on the device, (T, S) and (T, Q)."""
        return self._tensor(batch.support), self._tensor(batch.support_y), self._tensor(batch.query)

    def _tensor(self, rows: Counts) -> Tensor:
        """Return rows of a batch on the device; a row that all tasks share is sent once."""
        sent = np.require(rows[:1] if rows.strides[0] == 0 else rows, np.int64, ["C", "W"])
        return torch.from_numpy(sent).to(self.embeddings.device).expand(len(rows), -1)


def gram_matrix(z: Tensor) -> Tensor:
    """Return the inner products of centred embeddings, in float64 to keep small differences."""
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
    width = columns.shape[1]
    if _FEW * width < len(gram):  # look up what is needed
        needed = gram[support.unsqueeze(2), columns.unsqueeze(1)]  # (T, S, Q + S)
        sums = embedding_bag(order, needed.flatten(0, 1), offsets, mode="sum")
        sums = sums.view(tasks, classes, width)
    else:
        rows = embedding_bag(support.flatten()[order], gram, offsets, mode="sum")
        index = columns.unsqueeze(1).expand(-1, classes, -1)  # into (T, classes, n)
        sums = rows.view(tasks, classes, -1).gather(2, index)
    counts = counts.view(tasks, -1, 1)
    products = sums.div_(counts.clamp(min=1))  # with each prototype, (T, classes, Q + S)
    own = products[:, :, queries:].gather(1, support_y.unsqueeze(1))  # s.p, (T, 1, S)
    squares = embedding_bag(order, own.view(-1, 1), offsets, mode="mean")  # the mean of s.p is p.p
    lengths = gram.diagonal().contiguous()[query]  # lookups in the diagonal itself are slow
    logits = (2 * products[:, :, :queries]).sub_(squares.view(tasks, -1, 1))
    return logits.sub_(lengths.unsqueeze(1)).masked_fill_(counts == 0, -torch.inf)


def leave_one_out_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the probability of each support example's label when the example is left out."""
    # Without s, the prototype of n examples moves from p to (n p - s) / (n - 1), which is
    # n / (n - 1) times as far from s. The prototypes of other labels do not move.
    others = (labels.unsqueeze(1) == labels.unsqueeze(2)).sum(1).to(logits.dtype) - 1  # (T, S)
    whole = logits.gather(1, labels.unsqueeze(1)).squeeze(1)  # (T, S)
    apart = whole * ((others + 1) / others.clamp(min=1)).square()
    changed = logits.scatter(1, labels.unsqueeze(1), apart.unsqueeze(1))
    probabilities = changed.softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return torch.where(others > 0, probabilities, 0.0)


# Differences held at a time when scoring: 2**23 doubles are 64 MiB.
_DIFFERENCES = 2**23


class ProtoNet(Learner):
    """Metric-based meta-learner: softmax over minus squared distances to the prototypes.

    The prototype of a label is the mean embedding of its support examples. Labels may have
    different numbers of them. Unlabelled examples of the task refine the prototypes, as those of a
    `PrototypeLearner`.

    Parameters
    ----------
    backbone : torch.nn.Module
        Any module from examples to vectors; it becomes the attribute ``module``.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import MLP, ProtoNet
    >>> scorer = ProtoNet(MLP(2, rng=0)).adapt(np.eye(2), [0, 1], classes=3)
    >>> scorer.predict_proba(np.eye(2)).argmax(axis=1).tolist()
    [0, 1]
    """

    def __init__(self, backbone: nn.Module) -> None:
        for name, part in backbone.named_modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
                rule = "backbone must not normalise each batch separately, for independent scores"
                got = f"{name or type(part).__name__} without running statistics"
                raise InvalidInput(f"{rule}, got {got}. Use track_running_stats=True.")
        self.module = backbone

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes.

        Parameters
        ----------
        support_x, support_y, query_x : Tensor, shape (episodes, ...)
            Support examples, their labels, and query examples.
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

    def embed(self, x: Any, batch: int = POOL_BATCH, *, fast: bool = False) -> Tensor:
        """Return embeddings, computed in eval mode; large batches make it fast for whole pools.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Examples. Whole numbers, such as uint8 pixels, reach the backbone as they are;
            `InvalidInput` if it takes floats only.
        batch : int, default 1024
            Number of examples embedded at a time. The last digits may depend on it.
        fast : bool, default False
            On a GPU, compute with three digits (TF32), which can be several times faster. Embed
            the examples to calibrate on and the new ones in the same way.

        Returns
        -------
        Tensor, shape (n, d)
            The embeddings in float32, on the module's device.
        """
        with eval_mode(self.module, fast=fast):
            array = x if hasattr(x, "shape") else np.asarray(x)
            starts = range(0, max(count_examples(array), 1), batch)
            parts = (to_module_device(array[i : i + batch], self.module) for i in starts)
            return torch.cat([self._embed(part) for part in parts])

    def _embed_rows(self, x: Any) -> Tensor:
        """Return embeddings as adapted models compute them: each depends on its example alone."""
        with eval_mode(self.module):
            device = _reference(self.module).device.type
            z = in_batches(self._embed, x, self.module, _ROWS.get(device, BATCH))
            return check_embeddings(z)

    def _on_embeddings(self) -> ProtoNet:
        """Return the learner for examples that ``_embed_rows`` has embedded already."""
        return _Embedded(self.module)

    def bank(self, x: Any) -> PrototypeBank:
        """Return the embeddings of a pool, from which its tasks are scored.

        Parameters
        ----------
        x : array_like, shape (n, ...)
            Data of the pool.

        Returns
        -------
        PrototypeBank
        """
        return PrototypeBank(self.embed(x), x)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None, unlabelled: Any = None
    ) -> PrototypeScorer:
        labels, total = as_support_set(support_x, support_y, classes)
        z = self._embed_rows(support_x).double()  # (S, d)
        y = to_module_device(labels, self.module)
        scorer = PrototypeScorer(self, *find_prototypes(z[None], y[None], total))
        if unlabelled is None:
            return scorer
        others = self._embed_rows(unlabelled).double()  # (U, d)
        both, belongs = torch.cat([z, others]), one_hot_labels(y, total).double()
        for _ in range(ROUNDS):
            logits = torch.cat([scorer._logits(part) for part in torch.split(others, BATCH)])
            temperature = guess_temperature(scorer.prototypes[~scorer.absent])
            soft = torch.cat([belongs, (logits / temperature).softmax(1)])  # (S + U, classes)
            scorer = PrototypeScorer(self, *weigh_prototypes(both[None], soft[None]))
        return scorer

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
        with explain_failures(lambda: check_example_type(self.module, self.module, x)):
            z: Tensor = self.module(x)
        return z.float()


class _Embedded(ProtoNet):
    """A ProtoNet whose examples are embedded already."""

    def _embed_rows(self, x: Any) -> Tensor:
        return to_module_device(x, self.module).float()


@dataclass(frozen=True, eq=False)
class PrototypeScorer:
    """A ProtoNet adapted to one task."""

    learner: ProtoNet
    centre: Tensor  # (1, 1, d)
    prototypes: Tensor  # (1, classes, d)
    absent: Tensor  # (1, classes)

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        return self.probabilities_and_logits(x)[0]

    def probabilities_and_logits(self, x: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return probabilities and logits, in the precision of the embeddings."""

        def both(z: Tensor) -> Tensor:
            logits = self._logits(z)
            return torch.cat([logits.softmax(1), logits], 1)

        values = in_batches(both, self.learner._embed_rows(x), self.learner.module)
        probabilities, logits = np.split(values.float().cpu().numpy(), 2, axis=1)
        return np.ascontiguousarray(probabilities), logits

    def _logits(self, z: Tensor) -> Tensor:
        """Return the float64 logits of a batch of embeddings, (n, d) -> (n, classes)."""
        queries = (z.double() - self.centre[0]).unsqueeze(1)  # (n, 1, d)
        labels = max(1, _DIFFERENCES // (BATCH * max(1, z.shape[1])))
        parts = [(queries - p).square().sum(-1) for p in torch.split(self.prototypes[0], labels)]
        return (-torch.cat(parts, 1)).masked_fill(self.absent, -torch.inf)
