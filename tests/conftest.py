"""Settings that all tests share."""

from hypothesis import settings

# Times depend on the machine, answers do not: no test fails for being slow.
settings.register_profile("metapac", deadline=None, max_examples=150)
settings.load_profile("metapac")
