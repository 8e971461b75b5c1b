"""The version of this package, which results and files state."""

__version__ = "0.2.0"
