"""Executors: decide where jobs run. All run the same worker and are interchangeable."""
