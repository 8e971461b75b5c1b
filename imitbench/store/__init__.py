"""Results on disk: immutable run directories, and the DuckDB database derived from them."""
