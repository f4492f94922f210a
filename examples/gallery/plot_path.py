"""
Choosing C
==========

``LinearSVMCV`` trains along a path of C, each fit from the duals of the one before, on every fold.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from multimargin import LinearSVMCV, PathDisplay

X, y = load_digits(return_X_y=True)
search = LinearSVMCV(cv=5, random_state=0).fit(X / 16, y)
print(f"best C {search.C_:.3g}; every fit of the path is certified, the worst gap is {search.gaps_.max():.1e}")

PathDisplay.from_estimator(search)
plt.show()
