# Its source archive imports NumPy before it says that it needs it, so it is built in the environment itself.
set -e
python -m pip install numpy scipy scikit-learn cython setuptools wheel
python -m pip install --no-build-isolation sklearn-contrib-lightning
