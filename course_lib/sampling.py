"""From a model's scores to the chances with which the next token is drawn.

What it is: temperature, top-k and top-p. What it leaves out: the draw, which is one
`torch.multinomial`, and search for the likeliest whole text.

Sources: Fan et al. 2018 (top-k), Holtzman et al. 2020 (top-p, "nucleus sampling").
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def next_token_probs(
    logits_BV: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """(B, V) logits of any float dtype to (B, V) probabilities in float32; each row sums to 1.

    Logits may be -inf, but not all of a row; no two finite ones of a row are equal. The
    argument stays as it is. Three steps, in this order and in float32 or wider:
    1. Divide by `temperature`. At 0, do not divide: the likeliest token has the probability 1.
    2. Close all but the `top_k` likeliest tokens. A `top_k` beyond V closes none.
    3. From the likeliest on, keep tokens until their probabilities sum to `top_p` or more. Close the
       rest.
    Closed tokens have the probability 0. Open tokens keep their proportions and sum to 1, also
    after step 2. At least one token always stays open. None switches a setting off.
    """
    V = logits_BV.shape[-1]
    if temperature == 0:
        return F.one_hot(logits_BV.argmax(-1), V).float()
    logits_BV = logits_BV.float() / temperature
    if top_k is not None:
        kth = logits_BV.topk(min(top_k, V)).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < kth, float("-inf"))
    probs_BV = torch.softmax(logits_BV, dim=-1)
    if top_p is None:
        return probs_BV
    falling, order = probs_BV.sort(dim=-1, descending=True)
    before = falling.cumsum(-1) - falling  # what the likelier tokens hold together
    open_BV = torch.zeros_like(probs_BV, dtype=torch.bool).scatter(-1, order, before < top_p)
    probs_BV = probs_BV * open_BV
    return probs_BV / probs_BV.sum(-1, keepdim=True)
