"""Exact order statistics per task inside an engine."""
