"""Who is told about every epoch: scikit-learn's callbacks where there are any, plain callables, the progress line."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from reprlib import repr as shortened
from typing import Any

from multimargin.estimators.progress import Progress
from multimargin.linear.outcome import Epoch, Observer

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, FitCallback, with_callbacks

    CallbackSupport: Any = CallbackSupportMixin
    HAS_SKLEARN_CALLBACKS = True
except ImportError:
    HAS_SKLEARN_CALLBACKS = False

    class CallbackSupport:  # type: ignore[no-redef]
        """scikit-learn has no callbacks yet."""

    def with_callbacks(method):
        """Nothing to set up or tear down."""

        @functools.wraps(method)
        def managed(*args, **kwargs):
            return method(*args, **kwargs)

        return managed


# What a fit knows before it trains, and models in training need.
_KNOWN_AT_ONCE = ("classes_", "n_features_in_", "feature_names_in_")


def _plain(callback, fields) -> Observer:
    def each_epoch(epoch: Epoch, machine) -> bool:
        answer = callback(dict(zip(fields, epoch.as_tuple(), strict=True)))
        try:
            return bool(answer)
        except Exception as error:  # of an array, a frame and whatever else is not true or false
            raise TypeError(
                f"the callback {callback!r} must return True to stop, or False or None to go on, got "
                f"{shortened(answer)}, of {type(answer).__name__}"
            ) from error

    return each_epoch


def check_callbacks(callbacks: Any) -> list:
    """A list of what can be called, or is scikit-learn's."""
    if callbacks is not None and not isinstance(callbacks, list | tuple):
        raise TypeError(f"callbacks must be a list, got {callbacks!r}")
    for callback in callbacks or []:
        if isinstance(callback, type) or not (callable(callback) or _is_sklearn(callback)):
            raise TypeError(f"callbacks must be callables or scikit-learn callbacks, got {callback!r}")
    return list(callbacks or [])


@contextmanager
def observed(model, apart, X, y, sample_weight, request) -> Iterator[list[Observer]]:
    """The observers of one fit of a model, of which ``apart`` is what is trained."""
    given = check_callbacks(model.callbacks)
    observers = [_plain(callback, model._history_fields) for callback in given if not _is_sklearn(callback)]
    with _sklearn_context(model, apart, [c for c in given if _is_sklearn(c)], X, y, sample_weight, request, observers):
        if model.verbose:
            with Progress(request.limits.max_iter) as progress:
                yield [*observers, progress]
        else:
            yield observers


def _is_sklearn(callback) -> bool:
    return HAS_SKLEARN_CALLBACKS and not isinstance(callback, type) and isinstance(callback, FitCallback)


@contextmanager
def _sklearn_context(model, apart, given, X, y, sample_weight, request, observers: list[Observer]) -> Iterator[None]:
    """scikit-learn's callbacks, those set by ``set_callbacks`` and those given as a parameter, as one observer."""
    registered = getattr(model, "_skl_callbacks", [])
    if not HAS_SKLEARN_CALLBACKS or not (registered or given):
        yield
        return
    model.set_callbacks(*registered, *given)
    try:
        known = {name: value for name, value in vars(apart).items() if name in _KNOWN_AT_ONCE}
        known["_fitted_formulation"] = apart.formulation

        def current(machine) -> dict[str, Any] | None:
            model_of_now = apart._current(machine, request)
            return None if model_of_now is None else known | model_of_now

        told = {"estimator": model, "X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        context = model._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(**told)

        def each_epoch(epoch: Epoch, machine) -> bool:
            task = context.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(**told)
            return task.call_on_fit_task_end(**told, reconstruction_attributes=lambda: current(machine))

        observers.append(each_epoch)
        yield
        context.call_on_fit_task_end(**told)
    finally:
        model.set_callbacks(*registered)
