"""Checks of lesson 00: training_state_bytes.

Oracle: weights + gradients + master copy + moments, in exact integers. The first comparison uses
sizes under which every part has another share, so a missing part is known by its number.
"""

import itertools

from course_lib.checks import expect
from course_lib.checks.calls import WRAPS, expect_no_overflow
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

MIXED = dict(param_bytes=2, grad_bytes=2, master_copy=True, moments=2, moment_bytes=4)


def runs(subject: Subject, draw: Draw) -> None:
    """A count of parameters in, an int of at least that size out."""
    out = subject.call(1_000)
    if not isinstance(out, int) or isinstance(out, bool):
        expect.integer(out, 16_000, tried="1,000 parameters, the defaults")


def every_part(subject: Subject, draw: Draw) -> None:
    """Sizes that tell the parts apart: weight 1, gradient 6, copy 4, moments 3 x 8."""
    _expect(
        subject,
        draw.size(1_000, 1_024, 3_000),
        param_bytes=1,
        grad_bytes=6,
        master_copy=True,
        moments=3,
        moment_bytes=8,
    )


def mixed_precision(subject: Subject, draw: Draw) -> None:
    """The defaults: 2 + 2 + 4 + 2 * 4 = 16 bytes a parameter."""
    n = draw.size(124_000_000, 350_000_000)
    reference = _bytes(n, **MIXED)
    expect.integer(
        subject.call(n), reference, _patterns(n, **MIXED), tried=f"{n:,} parameters, the defaults"
    )


def float32(subject: Subject, draw: Draw) -> None:
    """No master copy: the weights are float32 themselves. 4 + 4 + 2 * 4 = 16 again."""
    _expect(
        subject,
        draw.size(1_000, 5_000),
        param_bytes=4,
        grad_bytes=4,
        master_copy=False,
        moments=2,
        moment_bytes=4,
    )


def other_optimizers(subject: Subject, draw: Draw) -> None:
    """SGD with momentum keeps one running mean, plain SGD none."""
    n = draw.size(1_000, 7_000)
    for moments in (1, 0):
        _expect(
            subject,
            n,
            param_bytes=4,
            grad_bytes=4,
            master_copy=False,
            moments=moments,
            moment_bytes=4,
        )


def seven_billion(subject: Subject, draw: Draw) -> None:
    """Exact for large models too: 112 GB for 7 billion parameters."""
    n = draw.size(7_000_000_000, 70_000_000_001)
    reference = _bytes(n, **MIXED)
    expect.integer(
        subject.call(n), reference, _patterns(n, **MIXED), tried=f"{n:,} parameters, the defaults"
    )


def each_size_alone(subject: Subject, draw: Draw) -> None:
    """Each argument acts by itself, whatever the others are; the defaults stay for those not given."""
    n = draw.size(1_000, 3_000, 4_096)
    for sizes in (
        dict(param_bytes=4),
        dict(param_bytes=1),
        dict(grad_bytes=4),
        dict(grad_bytes=8),
        dict(master_copy=False),
        dict(moments=0),
        dict(moments=3),
        dict(moment_bytes=1),
        dict(moments=0, moment_bytes=2),
        dict(param_bytes=8, grad_bytes=2, moments=1),
    ):
        given = ", ".join(f"{name}={value}" for name, value in sizes.items())
        tried, right = f"{n:,} parameters, {given}", _bytes(n, **(MIXED | sizes))
        out = subject.call(n, **sizes)
        if isinstance(out, int) and out != right:
            raise Wrong(
                "BYTES-TOGETHER",
                "the count differs with these arguments alone",
                tried=f"{tried}, the defaults for the rest",
                expected=f"{right // n} bytes a parameter",
                got=f"{number(out / n)} bytes a parameter",
                fits="a default that is another one, or a term that hangs on two arguments.",
                look="each argument by itself, and the defaults in the signature.",
            )
        expect.integer(out, right, tried=tried)
    n = 2**53 + 1
    out, right, tried = subject.call(n, moments=1), 12 * n, f"{n:,} parameters, moments=1"
    if isinstance(out, int) and 0 < abs(out - right) < right // 10**9:
        raise Wrong(
            "BYTES-ROUNDED",
            "the last digits are lost",
            tried=tried,
            expected=f"{right:,}",
            got=f"{out:,}",
            fits="a float on the way: it holds whole numbers exactly up to 2^53.",
            look="`float`, `/`, `1e9`: whole numbers alone are exact.",
        )
    expect.integer(out, right, tried=tried)


def every_combination(subject: Subject, draw: Draw) -> None:
    """Nothing comes in for some widths or counts alone: all combinations, a few parameters and many."""
    few, many = draw.size(3, 5, 7), draw.size(70_000_000_001, 8_030_261_248)
    widths = (1, 2, 4)
    for values in itertools.product(widths, widths, (True, False), (0, 1, 2, 3), widths):
        sizes = dict(zip(MIXED, values, strict=True))
        for n in (few, many):
            out, right = subject.call(n, **sizes), _bytes(n, **sizes)
            if isinstance(out, int) and out != right:
                given = [f"{name}={value}" for name, value in sizes.items()]
                raise Wrong(
                    "BYTES-TOGETHER",
                    "the count differs for this combination",
                    tried=f"{n:,} parameters, {', '.join(given[:3])},\n{', '.join(given[3:])}",
                    expected=f"{right:,} bytes",
                    got=f"{out:,} bytes, {abs(out - right):,} {'more' if out > right else 'fewer'}",
                    fits="something added for certain widths or counts alone, such as scales of\n"
                    "8-bit moments.",
                    look="each `if`, and whatever is not in the docstring: nothing else counts.",
                )
            expect.integer(out, right, tried=f"{n:,} parameters, {sizes}")


def no_limit(subject: Subject, draw: Draw) -> None:
    """Counts that take more than 64 bits: the bytes alone, or the parameters too."""
    more = draw.size(9, 11, 17)
    for n, sizes in (
        (10**18 + more, {}),
        (2**62 + more, dict(master_copy=False)),
        (10**30 + more, {}),
        (1000 + more, dict(moment_bytes=2**62)),
    ):
        given = ", ".join(f"{name}={value:,}" for name, value in sizes.items())
        right, tried = _bytes(n, **(MIXED | sizes)), f"{n:,} parameters, {given or 'the defaults'}"
        said = ("BYTES-WRAPS", "very large counts are not exact")
        with expect_no_overflow(*said, tried=tried, expected=f"{right:,}"):
            out = subject.call(n, **sizes)
        if isinstance(out, int) and out != right:
            raise Wrong(*said, tried=tried, expected=f"{right:,}", got=f"{out:,}", **WRAPS)
        expect.integer(out, right, tried=tried)


def zeros(subject: Subject, draw: Draw) -> None:
    """0 is a number like any other: what has no bytes adds none."""
    n = draw.size(1_000, 3_000)
    for count, sizes in (
        (n, dict(grad_bytes=0)),
        (n, dict(moment_bytes=0)),
        (n, dict(param_bytes=0)),
        (n, dict(param_bytes=0, grad_bytes=0, master_copy=False, moments=0, moment_bytes=0)),
        (0, {}),
    ):
        given = ", ".join(f"{name}={value}" for name, value in sizes.items())
        tried = f"num_params {count:,}, {given or 'the defaults'}"
        out, right = subject.call(count, **sizes), _bytes(count, **(MIXED | sizes))
        if isinstance(out, int) and out != right:
            raise Wrong(
                "BYTES-ZERO",
                "a 0 counts as something",
                tried=tried,
                expected=f"{right:,} bytes",
                got=f"{out:,} bytes",
                fits="`or`, for which a 0 is the same as nothing given.",
                look="`or`, `max`, and an `if` that asks for a number without comparing it.",
            )
        expect.integer(out, right, tried=tried)


def _expect(subject: Subject, n: int, **sizes) -> None:
    shown = [f"{name}={value}" for name, value in sizes.items()]
    tried = f"{n:,} parameters, {', '.join(shown[:2])},\n{', '.join(shown[2:])}"
    expect.integer(subject.call(n, **sizes), _bytes(n, **sizes), _patterns(n, **sizes), tried=tried)


def _bytes(
    n: int, *, param_bytes: int, grad_bytes: int, master_copy: bool, moments: int, moment_bytes: int
) -> int:
    return n * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes)


def _patterns(n: int, **sizes) -> list[Pattern]:
    """Wrong counts that learners write, as the numbers they give for these sizes."""
    total = _bytes(n, **sizes)
    p, g, master, m, mb = (sizes[k] for k in MIXED)
    moments = m * mb

    def pattern(code: str, per_param: int, finding: str, fits: str, look: str) -> Pattern:
        return Pattern(
            code=f"BYTES-{code}", value=n * per_param, finding=finding, fits=fits, look=look
        )

    found = [
        pattern("WEIGHTS-ONLY", p, "only the weights are counted", "num_params * param_bytes.",
                "the docstring: what else does each parameter have?"),
        pattern("NO-GRADS", p + 4 * master + moments, "the gradients are missing",
                "weights, copy and moments without gradients.", "the term with `grad_bytes`."),
        pattern("NO-MASTER", p + g + moments, "the float32 copy of the weights is missing",
                "12 bytes a parameter under the defaults: no master copy.",
                "`master_copy`: True adds 4 bytes a parameter."),
        pattern("ONE-MOMENT", p + g + 4 * master + mb, "one running mean is counted",
                "`moment_bytes` without `moments`.", "the factor in front of `moment_bytes`."),
        pattern("NO-MOMENTS", p + g + 4 * master, "the running means are missing",
                "weights, gradients and copy alone.", "the terms with `moments`."),
        pattern("NO-PARAMS", g + 4 * master + moments, "the weights themselves are missing",
                "gradients, copy and moments alone.", "the term with `param_bytes`."),
        pattern("NO-PARAMS", 4 * master + moments, "weights and gradients are missing",
                "copy and moments alone.", "the terms with `param_bytes` and `grad_bytes`."),
        pattern("MASTER-ALWAYS", p + g + 4 + moments, "a master copy is counted, there is none",
                "4 bytes added whatever `master_copy` says.", "`master_copy`: False adds nothing."),
        pattern("MASTER-SIZE", p + g + p * master + moments, "the master copy has the wrong size",
                "a copy of `param_bytes` each.", "the docstring: the copy is float32."),
        pattern("MOMENT-SIZE", p + g + 4 * master + m * p, "the running means have the wrong size",
                "moments of `param_bytes` each.", "`moment_bytes`."),
        pattern("MOMENT-SIZE", p + g + 4 * master + m * 2, "the running means have the wrong size",
                "moments of 2 bytes each, float16.", "`moment_bytes`."),
        pattern("MOMENT-SIZE", p + g + 4 * master + m * 4, "the running means have the wrong size",
                "moments of 4 bytes each, whatever `moment_bytes` says.", "`moment_bytes`."),
        pattern("FIXED", p + g + 4 * master + 2 * mb, "the number of running means is fixed",
                "2 moments, whatever `moments` says.", "the factor in front of `moment_bytes`."),
        pattern("FIXED", 16, "the arguments have no effect", "16 bytes a parameter, always.",
                "the keyword arguments: each is one term or factor."),
        pattern("BITS", 8 * total // max(n, 1), "the answer is in bits", "8 times the bytes.",
                "a factor of 8."),
    ]  # fmt: skip
    found += [
        Pattern(
            code="BYTES-UNIT",
            value=total // unit,
            finding="the answer is not in bytes",
            fits="a count in MB, GB, MiB or GiB, rounded down.",
            look="a division by a power of 10 or 2.",
        )
        for unit in (10**9, 2**30, 10**6, 2**20)
    ]
    return [f for f in found if f.value != total]


SUITES = (
    Suite(
        "bytes",
        (
            runs,
            every_part,
            mixed_precision,
            float32,
            other_optimizers,
            seven_billion,
            each_size_alone,
            every_combination,
            no_limit,
            zeros,
        ),
        tested="weights, gradients, master copy and moments, counted exactly, "
        "for Adam and SGD, in mixed precision and in float32.",
        remember="16 bytes per parameter with Adam in mixed precision, activations not counted.",
        next_step="training_state_bytes with your own model's parameter count.",
    ),
)
