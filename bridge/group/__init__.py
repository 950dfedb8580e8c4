"""The members of a group: roles, addresses, states, shares."""
