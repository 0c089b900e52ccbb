"""Pilot tasks: what levels would give, estimated on tasks that are then not calibrated on."""

from metapac.pilot.estimates import Cell as Cell
from metapac.pilot.estimates import Estimate as Estimate
from metapac.pilot.expectation import expected_thresholds as expected_thresholds
from metapac.pilot.expectation import least_tasks as least_tasks
from metapac.pilot.exploration import Exploration as Exploration
from metapac.pilot.exploration import read_pilot as read_pilot
