"""Keeping what a machine answered, so that inference can be run again later without the machine.

A recorder stands before a machine and notes every answer; a replay is a machine that gives the same answers to the
same calls. A scenario can't see the difference: it draws at random from its seed, so with the same ticks it asks the
same questions. Where a newer inference asks others, the replay says so instead of guessing.
"""

from setebench.recording.document import EVIDENCE_PREFIX, Recording, recording_of, without_recordings
from setebench.recording.machine import Recorder, Replay, recorder_of, replay_of

__all__ = [
    "EVIDENCE_PREFIX",
    "Recorder",
    "Recording",
    "Replay",
    "recorder_of",
    "recording_of",
    "replay_of",
    "without_recordings",
]
