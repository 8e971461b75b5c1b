"""Records: what rooms pass to each other, and what stands in files and tables."""
