"""Do the data mean what they should? Checks of scores, tasks and levels that are valid in form.

Each judge looks at a few numbers and returns a `Finding` or None. The numbers come from arrays
(`count_repeats`, `count_swaps`) or from an engine (``metapac.tables.meaning``). `report` raises a
finding that is surely wrong and warns of one that may be right.
"""

from metapac.meaning.findings import CheckWarning as CheckWarning
