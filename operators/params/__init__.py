"""The parameters of all operators: one catalog, and the setters and getters made of it."""
