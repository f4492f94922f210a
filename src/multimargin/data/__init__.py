"""Rows of X, as the core reads them."""
