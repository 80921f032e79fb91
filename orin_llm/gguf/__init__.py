"""What a model file says of itself before its data: the header, and what follows from it."""
