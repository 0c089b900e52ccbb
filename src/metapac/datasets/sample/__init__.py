"""A small sample of real survey data that ships with the package."""
