"""Kernel names: two that are documented, part by part, and what is no matrix product."""

import pytest

from course_lib.measure.kernels import decode


def test_the_run_that_the_cutlass_manual_prints():
    """media/docs/profiler.md: A f16 by columns, B f16 by rows, sums f32, 256 x 128 x 32, 2 stages."""
    assert decode("cutlass_tensorop_s1688gemm_f16_256x128_32x2_nt_align8") == {
        "unit": "tensor cores",
        "numbers": "float16 inputs, float32 sums",
        "instruction": "16 x 8 x 8",
        "tile": "256x128",
        "depth": "32 of K at a time",
        "stages": "2",
        "layout": "nt: A lies by columns, B by rows",
        "alignment": "8 numbers at a time",
    }


def test_the_kernel_of_the_forum():
    assert decode("ampere_sgemm_64x64_tn") == {
        "made for": "ampere",
        "unit": "ordinary cores",
        "numbers": "float32 inputs and sums",
        "tile": "64x64",
        "layout": "tn: A lies by rows, B by columns",
    }


def test_what_a_profiler_wraps_around_it():
    bare = "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8"
    found = decode(f"void cutlass::Kernel2<{bare}>(T1::Params)")
    assert found == decode(bare)
    assert found["made for"] == "compute capability 8.0" and found["stages"] == "3"
    assert found["numbers"] == "bfloat16 inputs, float32 sums" and "relu" in found["epilogue"]
    apart = decode("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn")
    assert (apart["tile"], apart["depth"], apart["stages"]) == ("128x128", "32 of K at a time", "5")


@pytest.mark.parametrize(
    "name", ["", "flash_fwd_kernel", "void at::native::elementwise_kernel<128>"]
)
def test_no_matrix_product(name):
    assert decode(name) == {}


def test_of_newer_products_only_what_is_certain():
    """sm100 is compute capability 10.0: the last digit is the minor one."""
    maker = {"maker": "cuBLAS, by names it does not explain"}
    assert decode("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT") == maker
    assert decode("nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_TNT") == maker | {
        "made for": "compute capability 10.0"
    }
