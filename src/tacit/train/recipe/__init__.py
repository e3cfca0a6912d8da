"""Features and defences that private training is often combined with."""
