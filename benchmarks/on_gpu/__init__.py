"""What benchmarks/gpu.py measures: kernels by themselves, and whole steps."""
