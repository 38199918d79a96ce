"""All scenarios on one machine, one after the other: what `setebench characterize` runs.

What one scenario measures of the clock and the levels goes to the next (`Context.calibration`); findings and evidence
stay its own. A scenario that fails costs its own rows alone. What is still open at the end is asked again (`patience`).
After each asking the document so far is handed out, so that an interrupted run can go on from it.

`series` keeps runs of one question in a folder, and `repeated` says how often they contradict each other.
"""

from setebench.campaign.documents import (
    EVIDENCE_PREFIX,
    NAME,
    Again,
    Step,
    askings_of,
    evidence_of,
    lost,
    merged,
    plan_of,
    steps_of,
)
from setebench.campaign.patience import default_patience
from setebench.campaign.plan import Plan, choose, runs_code
from setebench.campaign.remaining import remaining_text, seconds_left
from setebench.campaign.run import Listener, carry_out, characterize, infer, reason
from setebench.campaign.state import State

__all__ = [
    "EVIDENCE_PREFIX",
    "NAME",
    "Again",
    "Listener",
    "Plan",
    "State",
    "Step",
    "askings_of",
    "carry_out",
    "characterize",
    "choose",
    "default_patience",
    "evidence_of",
    "infer",
    "lost",
    "merged",
    "plan_of",
    "reason",
    "remaining_text",
    "runs_code",
    "seconds_left",
    "steps_of",
]
