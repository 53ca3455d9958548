"""Counting and measuring: FLOPs, parameters, memory, time."""
