"""Sites that cannot share their data: each sends a few numbers, and a coordinator combines them."""

from metapac.sites.combination import combine_sites
from metapac.sites.site import Site, read_site

__all__ = ["Site", "combine_sites", "read_site"]
