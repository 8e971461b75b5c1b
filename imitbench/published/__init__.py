"""Published results: reads, checks and compares folders that others can cite."""
