"""Processes that work together: who they are, how to start some here, what passes between them.

What is not here: ways to train on them (parallel/). Begin with `world`, then `collectives`, the ring
by hand. `local_ranks` runs a function on several ranks of this machine, `traffic` notes what they
send, `hang` explains why they wait, `measurement` times what they do together.
"""
