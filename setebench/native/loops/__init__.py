"""Loops with a prefetch policy, compiled with the package: what they run on, their results computed apart, and timing
them in turn. `setebench.native.machine.NativeMachine` offers them as `setebench.loops.RunsLoops`."""
