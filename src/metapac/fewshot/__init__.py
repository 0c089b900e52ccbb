"""The few-shot wing: tasks, learners, training, data sets, studies, and the paper's experiments.

Names are imported when they are first used, so that the plain learners never import torch.
"""

from metapac._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, extra="torch")
