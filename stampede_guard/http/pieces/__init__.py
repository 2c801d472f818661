"""Large bodies as pieces, one entry each, read in all processes while they arrive."""
