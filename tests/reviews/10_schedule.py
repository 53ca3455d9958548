"""Proofs of the review items of 10_schedule."""

import numpy as np

from tests.reviews import moved


def get_lr_1(n):
    return moved(n.g, n.lr)


def get_lr_3(n):
    return [n.M // n.a, round(100 * n.W / (n.M // n.a))]


def get_lr_4(n):
    steps = np.arange(n.M, 3 * n.M)
    rates = np.cos(np.pi * (steps - n.W) / (n.M - n.W))
    return steps[np.argmax(rates > 1 - 1e-12)]
