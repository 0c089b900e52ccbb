"""Sources of ``metapac score``, one file for each kind."""
