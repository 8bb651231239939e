"""Gradients on a GPU, sketched there by Triton in one pass over memory: only sketches reach the host."""
