"""From captured gradients to a verdict: pure functions on arrays."""
