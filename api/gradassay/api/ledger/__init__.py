"""The ledger: who proposed, approved and rejected which version of a golden, when and why; only ever added to."""
