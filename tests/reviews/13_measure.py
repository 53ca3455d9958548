"""Proofs of the review items of 13_measure."""

from course_lib.gpt import GPTConfig
from course_lib.measure.flops import flops_per_token
from course_lib.measure.roofline import Ceilings, Cost, matmul_roof
from course_lib.measure.timing import Timing, stopwatch
from course_lib.measure.utilization import mfu
from course_lib.probes.clock import FakeDevice
from tests.reviews import SMALL

ARGUED = {
    "count-flops-1": "the convention's own words",
}


def time_it_1(n):
    bench = FakeDevice([n.W / 1e3], launch=n.a / 1e3)
    return 1e3 * stopwatch(bench.function, warmup=0, repeats=1, clock=bench.clock)[0]


def time_it_2(n):
    return [Timing(r := (n.a, n.b, n.c, n.d, n.e)).median, sum(r) / 5]


def count_flops_2(n):
    config = GPTConfig(**{**SMALL, "d_model": n.D, "num_layers": n.L})
    return flops_per_token(config, n.T) - flops_per_token(config, 0)


def arithmetic_intensity_1(n):
    roof = matmul_roof(n.M, n.K, n.N, number_bytes=n.s, flops_per_s=1.0, bytes_per_s=1.0)
    return [roof["flops"], roof["bytes"]]


def arithmetic_intensity_2(n):
    return Ceilings(n.P * 1e12, n.b * 1e12).attainable(Cost(n.I, 1)) / 1e12


def mfu_1(n):
    """Nothing but a head of that many million parameters, and sequences of one token."""
    shape = GPTConfig(vocab_size=n.N * 10**6 // 4, num_layers=1, num_heads=1, d_model=4, d_hidden=1)
    return round(100 * mfu(n.R, shape, 1, n.P * 1e12), 2)


def mfu_2(n):
    shape = GPTConfig(**SMALL)
    peak = n.P * 1e12 * flops_per_token(shape, 64) / (n.c * 1e9)  # a token of another size
    return 100 * mfu(n.R, shape, 64, peak, world_size=n.g)
