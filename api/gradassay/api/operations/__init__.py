"""Running the service: logs, metrics, readiness, start and stop."""
