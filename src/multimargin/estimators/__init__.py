"""scikit-learn classes: validate, solve, store."""
