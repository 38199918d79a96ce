"""Findings against the truth of simulated machines. Knows neither machines nor scenarios.

`verdict` judges one finding; `rows` says what counts once on a machine, and the shares of that, with intervals over
machines; `counts`, `calibration` and `questions` say what many judgements are worth, `paired` what one version of the
inference gains on another; `accuracy` makes what is published; `document` puts it all together.
"""

from setebench.judge.accuracy import accuracy
from setebench.judge.document import summary, totals
from setebench.judge.paired import difference
from setebench.judge.questions import Answered
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
