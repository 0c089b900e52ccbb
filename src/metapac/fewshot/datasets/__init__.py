"""Data sets of the paper: files, cache, and the pools made of them."""
