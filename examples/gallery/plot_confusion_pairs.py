"""
Which classes are confused
==========================

With many classes a confusion matrix is hard to read, its largest entries are not.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from multimargin import ConfusionPairsDisplay, LinearSVM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
model = LinearSVM(C=0.1).fit(X_train, y_train)

ConfusionPairsDisplay.from_estimator(model, X_test, y_test)
plt.show()
