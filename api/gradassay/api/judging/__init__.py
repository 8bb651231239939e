"""Which golden a run is compared with, and the one assay that comes of it."""
