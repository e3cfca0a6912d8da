"""Which records take part in a step, and the batches made of them."""
