"""Grading in a process that never runs an answer: judge, confined workers, and what surrounds them."""
