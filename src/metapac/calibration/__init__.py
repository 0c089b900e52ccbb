"""Meta-PS and PS: Meta-PS applies the inequality of PS twice, within tasks and across them."""

from metapac.calibration.feasibility import check_on_infeasible as check_on_infeasible
from metapac.calibration.meta_ps import MetaPS as MetaPS
from metapac.calibration.ps import PS as PS
