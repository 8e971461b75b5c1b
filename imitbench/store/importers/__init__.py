"""Importers of results of other tools."""
