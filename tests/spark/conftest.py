"""Spark is large and slow to start, and no part of the extra [test]: without it these tests are not collected."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pyspark") else ["test_barrier.py"]
