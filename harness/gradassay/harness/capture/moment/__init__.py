"""Whether this is the moment to capture: after the whole reduction, before anything is done with the gradient."""
