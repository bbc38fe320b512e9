"""What the tests of the fused kernels share: Triton's interpreter, without a GPU."""

from __future__ import annotations

import pytest


@pytest.fixture
def triton_here(monkeypatch):
    """Let Triton's interpreter loop under a numpy that refuses int(array of one)."""
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("triton")
    if torch.cuda.is_available():
        return
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, *scope):
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
