"""Reports made from the results database."""
