"""What runs an answer and reports plain values: calls it, watches it, says what it did.

What is not here: what a right answer does; that stands in checks/, and a graded answer shares its
process with a probe, never with a check. Each is named for the check that sends it.
Begin with `ring`; `known_state` and `seats` are also used by lessons.
"""
