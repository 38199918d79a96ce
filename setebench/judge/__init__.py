"""Findings against the truth of simulated machines. Knows neither machines nor scenarios.

`verdict` judges one finding; `shares` says what counts once on a machine, and the shares of that, with intervals over
machines; `document` puts together what many judgements are worth, `paired` what one version of the inference gains on
another.
"""

from setebench.judge.document import Answered, accuracy, summary, totals
from setebench.judge.paired import difference
from setebench.judge.verdict import RATE_UNITS, Judgement, Kind, Verdict, judge

__all__ = [
    "RATE_UNITS",
    "Answered",
    "Judgement",
    "Kind",
    "Verdict",
    "accuracy",
    "difference",
    "judge",
    "summary",
    "totals",
]
