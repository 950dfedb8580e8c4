"""Has no function `main`."""
