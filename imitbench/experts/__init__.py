"""Creates what a suite bundles: experts, demonstrations and references."""
