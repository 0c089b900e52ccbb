"""Messages on infeasible guarantees: what is missing, and every remedy that works."""

from metapac.shortage.messages import add_clusters as add_clusters
from metapac.shortage.messages import explain_too_few_examples as explain_too_few_examples
from metapac.shortage.messages import explain_too_few_tasks as explain_too_few_tasks
from metapac.shortage.messages import (
    explain_too_few_tasks_on_average as explain_too_few_tasks_on_average,
)
from metapac.shortage.remedies import find_min_examples as find_min_examples
