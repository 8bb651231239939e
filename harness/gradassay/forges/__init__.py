"""GitHub and GitLab: what a job leaves there for people, and the calls of their APIs that this takes."""
