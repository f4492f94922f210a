"""Find wrong labels: give some rows of the digits a wrong label and see whether ``label_doubt`` finds them."""

import numpy as np
from sklearn.datasets import load_digits

from multimargin import LinearSVM

N_WRONG = 40

X, y_true = load_digits(return_X_y=True)
X = X / 16
rng = np.random.default_rng(0)
wrong = rng.choice(len(y_true), N_WRONG, replace=False)
y = y_true.copy()
y[wrong] = (y_true[wrong] + rng.integers(1, 10, N_WRONG)) % 10

# A strong regulariser keeps the model from bending itself around the wrong labels.
model = LinearSVM(C=0.1).fit(X, y)

# Share of each other class in the distribution over labels that a row's duals stand for; zero at its own label.
doubt = model.label_doubt()
total = np.asarray(doubt.sum(axis=1)).ravel().round(6)

# A row that gave all its dual mass away has total = 1, and there are many such rows: those inside the margin as
# well as those on the wrong side of it. How far the best other class is ahead tells them apart.
scores = model.decision_function(X)
rows = np.arange(len(y))
own = scores[rows, y].copy()
scores[rows, y] = -np.inf
ahead = scores.max(axis=1) - own
ranking = np.lexsort((-ahead, -total))  # by total, ties by ahead

print(f"{len(y)} rows, {N_WRONG} of them with a wrong label; {np.sum(total == 1)} rows have a doubt of 1\n")
print("rows inspected   wrong labels found   by chance")
for n in (10, 20, 40, 60, 100):
    found = np.isin(ranking[:n], wrong).sum()
    print(f"{n:>14}{found:>21}{n * N_WRONG / len(y):>12.1f}")

print("\nthe ten most doubtful rows\n   row   label   suggested   true label")
for row in ranking[:10]:
    suggested = doubt[[row]].toarray().argmax()
    print(f"{row:>6}{y[row]:>8}{suggested:>12}{y_true[row]:>13}")
