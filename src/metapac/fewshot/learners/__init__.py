"""Learners: adapt to a task with a few labelled examples, then score."""
