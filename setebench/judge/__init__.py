"""Findings against the truth of simulated machines. Knows neither machines nor scenarios.

`verdict` judges one finding; `shares` says what counts once on a machine, the shares of that, with intervals over
machines, and what one version of the inference gains on another; `document` puts together what judgements are worth.
"""

from setebench.judge.document import accuracy as accuracy
from setebench.judge.document import summary as summary
from setebench.judge.document import totals as totals
from setebench.judge.shares import difference as difference
from setebench.judge.verdict import Judgement as Judgement
from setebench.judge.verdict import Verdict as Verdict
from setebench.judge.verdict import judge as judge
