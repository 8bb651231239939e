"""From local gradient shards to records, without gathering."""
