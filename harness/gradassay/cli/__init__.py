"""The command line: thin commands over the three rooms; what is heavy is imported inside them."""
