"""Meta-training: episodes, loss, training loop, checkpoints and weights."""
