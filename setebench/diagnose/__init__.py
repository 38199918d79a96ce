"""What limits a program: its cycles by cause, its latencies and traffic, over time and by place, and what to try."""
