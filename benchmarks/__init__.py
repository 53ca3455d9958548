"""Measurements that the book cites; run one as `python -m benchmarks.NAME`."""
