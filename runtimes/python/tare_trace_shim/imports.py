"""Calls a function with a module after it was imported, now or later."""

import sys

_patches = {}


def after(name, patch):
    if name in sys.modules:
        _apply(patch, sys.modules[name])
        return
    if not _patches:
        sys.meta_path.insert(0, _Finder)
    _patches[name] = patch


def _apply(patch, module):
    try:
        patch(module)
    except Exception:
        pass  # a Python that is made otherwise: not linked


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        patch = _patches.pop(name, None)
        if patch is None:
            return None
        for finder in sys.meta_path:
            if finder is not _Finder and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader, patch)
                    return spec
        return None


class _Loader:
    def __init__(self, loader, patch):
        self._loader, self._patch = loader, patch

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _apply(self._patch, module)
