"""Training on several processes or machines: a collective, and what every rank does with it."""
