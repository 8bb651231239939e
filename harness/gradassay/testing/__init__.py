"""Cells as tests: the pytest plugin, and what it is made of."""
