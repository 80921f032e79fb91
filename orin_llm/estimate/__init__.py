"""What a model's speed and memory on a board should be, worked out and not measured."""
