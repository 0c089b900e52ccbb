"""Four ways to choose a threshold, side by side. See ``metapac demo``."""
