"""Parameters of all operators: one catalog, and the setters and getters made from it."""
