"""The service's own database: runs, assays, the ledger of goldens, reviews and tokens."""
