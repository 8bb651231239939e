"""The service as the command line sees it: HTTP with retries, and a store behind it."""
