"""The HTTP service over a store of goldens and records; knows neither torch nor how steps are run."""
