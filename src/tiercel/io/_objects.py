"""Take an object apart into constructor parameters and state, and put it together."""

from __future__ import annotations

import inspect
from typing import Any

from tiercel.io._plain import Unsaveable

Values = dict[str, Any]


def can_be_rebuilt(cls: type) -> bool:
    """Tell whether the class takes part: by its parameters or by restoring itself."""
    return hasattr(cls, "get_params") or hasattr(cls, "_restore_state")


def taken_apart(obj: Any) -> tuple[Values | None, Values]:
    """Return the constructor parameters, None where there are none, and the rest."""
    cls = type(obj)
    parameters = None
    if hasattr(cls, "get_params"):
        parameters = dict(obj.get_params(deep=False))
    # Looked up on the class: a meta-estimator may pass attributes through.
    if hasattr(cls, "_saved_state"):
        state = obj._saved_state()
    else:
        state = getattr(obj, "__dict__", {})
    if not isinstance(state, dict) or not all(type(name) is str for name in state):
        raise Unsaveable(f"_saved_state of {cls.__name__} must return a dict of names")
    known = parameters or {}
    return parameters, {name: v for name, v in state.items() if name not in known}


def put_together(
    cls: type, parameters: Values | None, state: Values, *, same_version: bool
) -> Any:
    """Return an object of the class with these parameters and this state.

    A parameter that is missing takes its default if the file comes from another
    version; in a file of this version, it is an error.
    """
    if hasattr(cls, "get_params") != (parameters is not None):
        raise ValueError("its class has changed: it has or had no get_params")
    if parameters is None:
        obj: Any = object.__new__(cls)
    else:
        _check_names(cls, parameters, same_version)
        obj = cls(**parameters)
        if not state:
            return obj
    restore = getattr(cls, "_restore_state", None)
    if restore is not None:
        restore(obj, state)
    else:
        vars(obj).update(state)
    return obj


def _check_names(cls: type, parameters: Values, same_version: bool) -> None:
    declared = inspect.signature(cls).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in declared):
        return
    needed = {p.name for p in declared if same_version or p.default is p.empty}
    unknown = parameters.keys() - {p.name for p in declared}
    missing = needed - parameters.keys()
    for what, names in (("does not know", unknown), ("misses", missing)):
        if names:
            raise ValueError(
                f"{cls.__name__} {what} the parameters {', '.join(sorted(names))}; it "
                "was saved by another version of its class"
            )
