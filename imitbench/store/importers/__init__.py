"""Importers of results that other tools wrote."""
