"""Progress of running jobs, for the person who started them."""
