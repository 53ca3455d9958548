"""The speed ladder: one training step with a switch for every rung, timed alone and together.

What is not here: the fast pieces themselves (fast/). Begin with `rungs`, the step; `climb` times it,
`gains` is the arithmetic, `report` the table and the picture.
"""
