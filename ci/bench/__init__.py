"""Benchmarks, each a ratio within one run on the same data: PYTHONPATH=ci python -m bench.run."""
