"""Findings against the truth of simulated machines. Knows neither machines nor scenarios.

`verdict` judges one finding; `counts`, `calibration` and `questions` say what many judgements are worth, `paired` what
one version of the inference gains on another; `accuracy` and `failures` make what is published; `document` puts it all
together.
"""

from setebench.judge.accuracy import accuracy
from setebench.judge.document import summary
from setebench.judge.failures import Machine, Trait, failure_classes
from setebench.judge.paired import difference
from setebench.judge.questions import Answered
from setebench.judge.verdict import RATE_UNITS, Judgement, Kind, Verdict, judge

__all__ = [
    "RATE_UNITS",
    "Answered",
    "Judgement",
    "Kind",
    "Machine",
    "Trait",
    "Verdict",
    "accuracy",
    "difference",
    "failure_classes",
    "judge",
    "summary",
]
