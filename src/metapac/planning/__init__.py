"""Planning: what a guarantee needs, and which guarantees given tasks support."""

from metapac.planning.needs import Need as Need
from metapac.planning.offers import OFFERED_ALPHAS as OFFERED_ALPHAS
from metapac.planning.offers import OFFERED_DELTAS as OFFERED_DELTAS
from metapac.planning.offers import Offer as Offer
from metapac.planning.offers import find_offers as find_offers
from metapac.planning.options import Option as Option
from metapac.planning.options import compare_splits as compare_splits
from metapac.planning.plans import Curve as Curve
from metapac.planning.plans import Plan as Plan
from metapac.planning.plans import plan as plan
