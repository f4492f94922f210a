"""How a linear machine is trained: one outer loop, one file an algorithm."""
