"""
Text, from sentences to classes
===============================

The descriptions of scikit-learn's bundled data sets are the text: from which of them is a sentence? TF-IDF
makes sparse rows of unit length, as linear machines like them, and the largest weights say which words speak
for a class.
"""

import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from multimargin import LinearSVM

sentences, labels = [], []
for load in (load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine):
    for line in re.split(r"[.\n]\s", load().DESCR):
        if len(line.split()) >= 4:
            sentences.append(line)
            labels.append(load.__name__.removeprefix("load_"))
print(f"{len(sentences)} sentences of {len(set(labels))} texts, such as {sentences[40]!r}")

model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LinearSVM(class_weight="balanced"))
print(f"cross-validated accuracy {cross_val_score(model, sentences, labels).mean():.2f}")

# %%

model.fit(sentences, labels)
words = model[0].get_feature_names_out()
weights = model[-1].coef_ - model[-1].coef_.mean(axis=0)
figure, axes = plt.subplots(2, 3, figsize=(10, 5), layout="constrained")
for axis, label, row in zip(axes.ravel(), model.classes_, weights, strict=True):
    top = np.argsort(row)[-6:]
    axis.barh(words[top], row[top], color="#4477aa")
    axis.set_title(label)
plt.show()
