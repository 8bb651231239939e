"""What pages ask of the database beyond what the parts of the service already answer."""
