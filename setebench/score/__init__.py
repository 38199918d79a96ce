"""Runs scenarios on simulated machines and holds what they report against what is true.

The scenario gets the machine's facade and ticks, never its file; only in `tasks`, after it has answered, do the two
meet. Tasks are carried out in processes of this computer or on a Dask cluster; answers go to a file as they come
(`stream`), and a line on each sealed run to a log. `seeds` draws those of sealed runs.
"""

from setebench.score.run import judge_all as judge_all
from setebench.score.stream import Plan as Plan
from setebench.score.tasks import NOISES as NOISES
from setebench.score.tasks import Answer as Answer
from setebench.score.tasks import Task as Task
from setebench.score.tasks import perform as perform
from setebench.score.tasks import perform_all as perform_all
from setebench.score.tasks import with_noise as with_noise
