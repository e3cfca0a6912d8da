"""Activation checkpointing: parts of a model that are computed again in the backward pass."""
