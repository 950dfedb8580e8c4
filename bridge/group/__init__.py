"""What the members of one group know of each other: roles, addresses, states, shares."""
