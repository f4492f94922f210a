"""What ``benchopt test`` leaves out."""

import os

import pytest


def check_test_dataset_get_data(benchmark, dataset):
    if dataset.name == "stored" and "MULTIMARGIN_DATA" not in os.environ:
        pytest.skip("the real sets need MULTIMARGIN_DATA, the folder with their files")
