"""The dashboard: pages rendered here, and the static files that they need."""
