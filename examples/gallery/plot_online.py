"""
Rows that come one batch at a time
==================================

``partial_fit`` visits each row once with the exact step and keeps only the weights: memory does not grow with
the stream. A fit on all rows is better, and says how much.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from multimargin import LinearSVM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.3, random_state=0, stratify=y)

online = LinearSVM(C=0.1)
seen, accuracy = [], []
for batch in np.array_split(np.arange(len(y_train)), 25):
    online.partial_fit(X_train[batch], y_train[batch], classes=np.unique(y))
    seen.append(batch[-1] + 1)
    accuracy.append(online.score(X_test, y_test))
whole = LinearSVM(C=0.1).fit(X_train, y_train).score(X_test, y_test)

figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
axis.plot(seen, accuracy, "o-", color="#4477aa", markersize=4, label="partial_fit, each row visited once")
axis.axhline(whole, color="#ee6677", label="fit on all rows")
axis.set(xlabel="rows seen", ylabel="test accuracy")
axis.legend(loc="lower right")
plt.show()
