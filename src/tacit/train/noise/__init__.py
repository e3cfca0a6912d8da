"""Keys, generators and the noise that is added to a clipped sum."""
