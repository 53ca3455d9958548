"""Checks of lesson 20: which parameters share a bucket of DataParallel, and in which order.

Oracle: `expected_layout`, the buckets of the contract, by numbers.
"""

from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw
from course_lib.probes.ddp import KINDS

PROBE = "course_lib.probes.ddp:fill_buckets"
Layout = list[list[int]]


def layout(subject: Subject, draw: Draw) -> None:
    """Which parameters share a bucket, in which order."""
    n = draw.size(10, 12, 14)
    # the last three, taken first to last, fill a bucket to the byte; n + 1 is one element too many
    shapes = [(n, ""), (n, ""), (n, "frozen"), (n, ""), (n, "half"), (n, ""), (n, ""), (n + 1, "")]
    shapes += [(8 * n, ""), (n, "")]
    cap = 4 * 3 * n
    devices = [(n, ""), (n, "meta"), (n, "meta"), (n, "")]
    kinds = ("half", "float16", "double", "")
    alike = [([(n, kind)] * 7, cap) for kind in kinds]  # six of 2 bytes, three of 4, one of 8
    layouts = [(shapes, cap), (devices, cap), ([(n, ""), (n, "")], 1), *alike]
    try:
        (rank,) = subject.run_ranks([(layouts,)], probe=PROBE)
    except AnswerError as failure:
        text = str(failure.error)
        if "process group" in text:
            raise without_group(text) from None
        if "require gradient" not in text:
            raise
        raise Wrong(
            "BUCKETS-FROZEN",
            "a hook for a frozen parameter",
            got=text[:76],
            look="which parameters `fill_buckets` takes: `p.requires_grad`.",
        ) from None
    _check_layout(rank.value[0], shapes, cap)
    if rank.value[1] != (wanted := expected_layout(devices, cap)):
        raise Wrong(
            "BUCKETS-DEVICE",
            "parameters of two devices share a bucket, or those of one do not",
            tried="4 parameters; 1 and 2 on another device (meta); all fit into one bucket",
            expected=str(wanted),
            got=str(rank.value[1])[:150],
            hides="torch.cat takes no tensors of two devices: such a model would fail.",
            look="what parameters of a bucket have in common: dtype and device.",
        )
    if rank.value[2] != [[1], [0]]:
        raise Wrong(
            "BUCKETS-OVER",
            "a bucket is larger than bucket_bytes",
            tried=f"2 parameters of {4 * n} bytes, bucket_bytes=1",
            expected="[[1], [0]]: one at least, however large",
            got=str(rank.value[2])[:150],
            look="when a new bucket begins.",
        )
    for found, (same, _) in zip(rank.value[3:], alike, strict=True):
        if found != (wanted := expected_layout(same, cap)):
            size = KINDS[same[0][1]].itemsize
            raise Wrong(
                "BUCKETS-ITEMSIZE",
                "buckets of another dtype are filled as if its numbers had other bytes",
                tried=f"7 parameters of {n} numbers of {size} bytes; at most {cap} bytes",
                expected=f"{wanted}: {cap // (size * n)} fit into a bucket",
                got=str(found)[:150],
                look="how many bytes a number has: `element_size()`, `nbytes`.",
            )


def without_group(text: str) -> Wrong:
    """A collective was asked for where no process group is."""
    return Wrong(
        "BUCKETS-NO-GROUP",
        "a collective where there is no group",
        tried="one process without a group",
        expected="no collective: the mean over one rank is the gradient",
        got=text[:70],
        look="`dist.is_initialized()`.",
    )


def _check_layout(found: Layout, shapes: list[tuple[int, str]], cap: int) -> None:
    wanted = expected_layout(shapes, cap)
    if found == wanted:
        return
    used = [i for i, (_, kind) in enumerate(shapes) if kind != "frozen"]
    sizes = [n * KINDS[kind].itemsize for n, kind in shapes]
    facts = dict(
        tried=f"parameters 0 to 9 of {', '.join(map(str, sizes))} bytes; 2 frozen, 4 bfloat16; at most {cap}",
        expected=str(wanted),
        got=str(found)[:150],
    )
    flat = [i for bucket in found or [] for i in bucket]
    if sorted(flat) == sorted([*used, 2]):
        raise Wrong(
            "BUCKETS-FROZEN",
            "a frozen parameter has a place in a bucket",
            **facts,
            hides="its gradient never comes, so its bucket starts in finish(), late.",
            look="`p.requires_grad`.",
        )
    if sorted(flat) != used:
        raise Wrong(
            "BUCKETS-PARAMS",
            "not every parameter is in one bucket",
            **facts,
            look="the bucket that is open when the loop ends.",
        )
    if flat == used and len(used) > 1:
        raise Wrong(
            "BUCKETS-FRONT",
            "the first layers come first",
            preset="timeline:front",
            **facts,
            hides="backward reaches them last, and no bucket may overtake another.",
            look="the order in which the parameters are taken.",
        )
    if all(len(bucket) == 1 for bucket in found):
        raise Wrong(
            "BUCKETS-EACH",
            "every parameter has a bucket of its own",
            **facts,
            hides="a collective takes time to start, however small.",
            preset="timeline:single",
            look="when a new bucket begins.",
        )
    if len(found) == 1:
        raise Wrong(
            "BUCKETS-ONE",
            "there is one bucket",
            preset="timeline:default",
            **facts,
            hides="it is full when backward ends, and nothing is left to hide it behind.",
            look="`bucket_bytes`, and what is compared with it.",
        )
    if any(len({shapes[i][1] for i in bucket}) > 1 for bucket in found):
        raise Wrong(
            "BUCKETS-DTYPE",
            "float32 and bfloat16 share a bucket",
            **facts,
            hides="torch.cat makes float32 of both: more bytes.",
            look="the dtype of the parameter before.",
        )
    if any(len(b) > 1 and sum(sizes[i] for i in b) > cap for b in found):
        raise Wrong(
            "BUCKETS-OVER",
            "a bucket is larger than bucket_bytes",
            **facts,
            look="whether a parameter still fits is asked before it is put in; the unit\nis bytes.",
        )
    if len(found) > len(wanted):
        raise Wrong(
            "BUCKETS-UNDER",
            "a parameter that fits begins a new bucket",
            **facts,
            look="`<` and `<=`: at most bucket_bytes.",
        )
    raise Wrong("OTHER", "the buckets are others", **facts, look="the docstring of fill_buckets.")


def expected_layout(shapes: list[tuple[int, str]], cap: int) -> Layout:
    """The buckets of the contract, by numbers."""
    found: Layout = []
    for i in reversed(range(len(shapes))):
        (n, kind), num_bytes = shapes[i], 0
        if kind == "frozen":
            continue
        size = n * KINDS[kind].itemsize
        if found and shapes[found[-1][-1]][1] == kind:
            num_bytes = sum(shapes[j][0] for j in found[-1]) * KINDS[kind].itemsize
            if num_bytes + size <= cap:
                found[-1].append(i)
                continue
        found.append([i])
    return found
