"""Training and prediction with kernels, keeping scores."""
