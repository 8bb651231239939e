"""The CPU kernel of sketch spec v1: one pass over memory."""
