"""Where goldens and records are kept."""
