"""Makes the kernel compiler triton importable while a framework that declares kernels, and calls none here, is imported."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any


class _Anything:
    """Whatever triton would have given while kernels are declared; decorators leave a function as it is."""

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        decorated = len(arguments) == 1 and callable(arguments[0]) and not options
        return arguments[0] if decorated else self


@contextlib.contextmanager
def without_triton() -> Iterator[None]:
    """Makes triton importable for a while."""
    # It asks whether triton is there, and must not see this.
    importlib.import_module("torch._inductor.compile_fx")
    package, language = (types.ModuleType(name) for name in ("triton", "triton.language"))
    vars(package).update(__path__=[], __version__="0", language=language)
    for module in (package, language):
        vars(module)["__getattr__"] = lambda name: getattr(_Anything(), name)
        sys.modules[module.__name__] = module
    try:
        yield
    finally:
        for module in (package, language):
            del sys.modules[module.__name__]
