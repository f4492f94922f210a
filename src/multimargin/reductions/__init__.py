"""Many binary machines that make one multi-class machine."""
