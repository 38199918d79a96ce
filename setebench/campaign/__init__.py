"""All scenarios on one machine, one after the other: what `setebench characterize` runs.

What one scenario measures of the clock and the levels goes to the next (`Context.calibration`); findings and evidence
stay its own. A scenario that fails costs its own rows alone. What is still open at the end is asked again (`patience`).
After each asking the document so far is handed out, so that an interrupted run can go on from it.

`series` keeps runs of one question in a folder, and `repeated` says how often they contradict each other.
"""

from setebench.campaign.documents import (
    NAME,
    Again,
    Plan,
    Step,
    askings_of,
    choose,
    evidence_of,
    lost,
    plan_of,
    runs_code,
    steps_of,
)
from setebench.campaign.patience import default_patience
from setebench.campaign.run import Listener, carry_out, characterize, infer, reason

__all__ = [
    "NAME",
    "Again",
    "Listener",
    "Plan",
    "Step",
    "askings_of",
    "carry_out",
    "characterize",
    "choose",
    "default_patience",
    "evidence_of",
    "infer",
    "lost",
    "plan_of",
    "reason",
    "runs_code",
    "steps_of",
]
