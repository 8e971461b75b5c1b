"""From cards to results: plan, specification, job, worker and evaluation protocol."""
