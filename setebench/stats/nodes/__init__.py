"""Which of many nodes is odd: variance components and robust centres."""
