"""What any long program needs: options from a dataclass, a log, heartbeats, files that stay whole.

What is not here: anything of training. Begin with `options`; nothing here imports another room.
"""
