"""Private steps inside other people's training loops."""
