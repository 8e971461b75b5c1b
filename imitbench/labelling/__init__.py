"""People compare clips of behavior on a local page; their answers become preferences."""
