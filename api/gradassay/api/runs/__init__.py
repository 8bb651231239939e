"""Runs: records that were posted, checked before anything of them is kept."""
