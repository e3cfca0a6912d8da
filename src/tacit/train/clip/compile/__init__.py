"""The clipped sum as one compiled graph, with its rewriting passes and kernels."""
