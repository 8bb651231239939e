"""What people decide about divergences, and what is still to be decided."""
