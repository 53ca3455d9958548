"""What measures: time, bytes, FLOPs, memory, and the roofline they are held against.

What is not here: what ranks send (ranks/traffic), and the speed ladder (ladder/). Begin with
`timing` for seconds, `flops` for arithmetic, `held` for bytes.
"""
