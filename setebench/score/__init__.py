"""Runs scenarios on simulated machines and holds what they report against what is true.

The scenario gets the machine's facade and ticks, never its file; only here, after it has answered, do the two meet.
`tasks` are carried out in processes of this computer (`workers`), of another version's sources (`versions`) or of a
Dask cluster (`cluster`); answers go to a file as they come (`stream`). `seeds` draws those of sealed runs, and
`sealed_log` keeps a line on each.
"""

from setebench.score.noise import NOISES, with_noise
from setebench.score.run import judge_all
from setebench.score.stream import Plan
from setebench.score.workers.local import perform_all
from setebench.score.workers.tasks import Answer, Task, perform

__all__ = [
    "NOISES",
    "Answer",
    "Plan",
    "Task",
    "judge_all",
    "perform",
    "perform_all",
    "with_noise",
]
