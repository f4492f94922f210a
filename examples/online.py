"""Learn from a stream: ``partial_fit`` visits every row once, in the order in which rows come.

Each row gets the same exact step as in ``fit``, from duals of zero, and is then forgotten: memory does not grow, and
there is no certificate. A smaller C makes smaller steps: it bounds what one row can do to the model.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from multimargin import LinearSVM

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)

model = LinearSVM(C=0.02)
print("rows seen   accuracy on the next batch   on the test set")
seen = 0
for X_batch, y_batch in zip(np.array_split(X_train, 9), np.array_split(y_train, 9), strict=True):
    # Test on a batch before learning from it: an honest estimate, as its labels were not used yet.
    before = f"{model.score(X_batch, y_batch):.3f}" if seen else "-"
    model.partial_fit(X_batch, y_batch, classes=np.arange(10))  # all classes that will ever come
    seen += len(y_batch)
    print(f"{seen:>9}{before:>29}{model.score(X_test, y_test):>18.3f}")

exact = LinearSVM(C=0.1).fit(X_train, y_train)
print(f"\nfit on all rows at once, C=0.1: {exact.score(X_test, y_test):.3f} on the test set, {exact.n_iter_} epochs")
