"""Backbones: the networks that embed examples."""
