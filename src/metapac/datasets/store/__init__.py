"""Storage shared by all data sets: downloads, archives, readers and the cache."""
