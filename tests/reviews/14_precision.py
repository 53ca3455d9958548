"""Proofs of the review items of 14_precision."""

import math

import torch
from torch import nn

from course_lib.measure.formats import weight_bytes
from course_lib.training.loss_scaling import LossScaler
from tests.reviews import yes


def grad_scaler_1(n):
    scaler = LossScaler(float(n.S), growth_interval=n.n)
    kinds = [1.0] * n.g + [math.inf] + [1.0] * n.n
    return scaler.rehearse([[torch.tensor([k])] for k in kinds])[-1]["scale"]


def grad_scaler_2(n):
    return yes(torch.tensor(n.m * 10.0**-n.k).half() == 0)


def grad_scaler_3(n):
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.tensor([float(n.n) * n.S])
    nn.utils.clip_grad_norm_([weight], 1.0)
    return weight.grad.item() / n.S


def quantize_memory_1(n):
    return weight_bytes([(n.r, n.c)], "mxfp4")


def quantize_memory_2(n):
    return weight_bytes([(n.n * 10**6, 1000 - 40)], n.fmt) / 0.96 / 1e9
