"""What pages show, as pure functions of what the database says."""
