"""The reference prediction table: see `spec.ReferencePrediction`. Its state machine is that of the paper's Figure 2."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.compiler import Ints, compiled
from setebench.sim.prefetchers.common import hand_out, may_go

(R_TAG, R_LAST, R_STRIDE, R_STATE, R_WORDS) = range(5)
NO_PREDICTION, INITIAL, TRANSIENT, STEADY = range(4)


@compiled
def train_reference_prediction(c: Ints, s: Ints, p: int, q: int) -> None:
    """Compare the access with what its instruction's entry predicts, and fetch what it predicts then."""
    address, ip = s[lay.S_SEEN_ADDRESS], s[lay.S_SEEN_IP]
    entry = q + ((ip ^ (ip >> 10)) & (c[p + lay.REFERENCE_PREDICTION_ENTRIES] - 1)) * R_WORDS
    if s[entry + R_TAG] != ip + 1:
        s[entry + R_TAG] = ip + 1
        s[entry + R_LAST] = address
        s[entry + R_STRIDE] = 0
        s[entry + R_STATE] = INITIAL
        return
    stride = address - s[entry + R_LAST]
    state = s[entry + R_STATE]
    correct = stride == s[entry + R_STRIDE]
    if not correct and state != STEADY:
        s[entry + R_STRIDE] = stride
    if correct:
        state = TRANSIENT if state == NO_PREDICTION else STEADY
    else:
        state = INITIAL if state == STEADY else TRANSIENT if state == INITIAL else NO_PREDICTION
    s[entry + R_STATE] = state
    s[entry + R_LAST] = address
    if state < TRANSIENT + c[p + lay.REFERENCE_PREDICTION_STARTS] or s[entry + R_STRIDE] == 0:
        return
    line = address >> c[lay.C_LINE_BITS]
    target = (address + c[p + lay.REFERENCE_PREDICTION_LOOKAHEAD] * s[entry + R_STRIDE]) >> c[lay.C_LINE_BITS]
    if target != line and may_go(c, s, p, line, target):
        hand_out(c, s, target)
