"""Loops with a prefetch policy, compiled with the package: what they run on, their results computed apart, and timing
them in turn. `setebench.core.native.NativeMachine` offers them as `setebench.loops.RunsLoops`."""
