"""Experts, demonstrations and results on the Hugging Face hub: in and out, as data only."""
