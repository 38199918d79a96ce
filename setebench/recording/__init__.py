"""Keeping what a machine answered, so that inference can be run again later without the machine.

A `Recorder` stands before a machine and notes every answer; a `Replay` is a machine that gives the same answers to the
same calls. A scenario can't see the difference: it draws at random from its seed, so with the same ticks it asks the
same questions. Where a newer inference asks others, the replay says so instead of guessing.
"""

from setebench.recording.document import (
    EVIDENCE_PREFIX,
    Recording,
    calls_and_ticks,
    checksum_of,
    recording_of,
    without_recordings,
)
from setebench.recording.loops import recorder_of, replay_of
from setebench.recording.recorder import Recorder
from setebench.recording.replay import Replay

__all__ = [
    "EVIDENCE_PREFIX",
    "Recorder",
    "Recording",
    "Replay",
    "calls_and_ticks",
    "checksum_of",
    "recorder_of",
    "recording_of",
    "replay_of",
    "without_recordings",
]
