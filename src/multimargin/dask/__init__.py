"""Linear machines on a cluster: :class:`LinearSVM` trains where the partitions of a Dask collection are, and
:class:`LinearSVMCV` chooses C there."""

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise ImportError('multimargin.dask needs Dask: pip install "multimargin[dask]"') from error

from multimargin.dask.linear_svm import LinearSVM
from multimargin.dask.linear_svm_cv import LinearSVMCV

__all__ = ["LinearSVM", "LinearSVMCV"]
