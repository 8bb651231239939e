"""Who calls, and what they may do: tokens, browser sessions, and the exchange of CI jobs' identities."""
