"""Search spaces and strategies to sample them."""
