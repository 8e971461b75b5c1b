"""A local page that shows a results folder while runs are written into it; it only reads."""
