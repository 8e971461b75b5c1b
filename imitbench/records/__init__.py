"""Records that the subpackages exchange, and that files and tables contain."""
