"""The paper's experiments on its data sets, from trained learners to figures."""
