"""What runs an answer for a check: it calls the answer, watches it, and reports plain values.

What is not here: what a right answer does; that stands in checks/, and a graded answer shares its
process with a probe, never with a check. Each is named for the check that sends it.
Begin with `ring`; `known_state` and `seats` are also used by lessons.
"""
