"""The same mathematics with less time or less memory: part 3 of the book.

What is not here: what measures it (measure/), and the ladder on which the gains are compared
(ladder/). Begin with `fused_rmsnorm` for a kernel, with `flash` for attention in tiles; `tiles` is
the interpreter in which kernels run without a GPU.
"""
