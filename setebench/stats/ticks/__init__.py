"""What raw ticks say: the clock's step, means with intervals, and which levels served loads."""
