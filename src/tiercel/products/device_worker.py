"""One device at work: what it waits for, and how arrays come to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tiercel import _arrays
from tiercel.products.torch_tiles import as_tensor


class Worker:
    """One device at work: its stream, its copy of the centres, its way to multiply."""

    def __init__(self, device: Any, maker: Any, own_stream: bool) -> None:
        import torch

        self.torch, self.device, self.maker = torch, device, maker
        self.stream = None
        if own_stream and device.type == "cuda":
            self.stream = torch.cuda.Stream(device)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run the block on the worker's stream and wait for it to finish."""
        if self.stream is None:
            yield
            return
        with self.torch.cuda.stream(self.stream):
            yield
            self.stream.synchronize()

    def take(self, array: Any) -> Any:
        """Bring an array (numpy, tensor or CSR) to the device."""
        if not isinstance(array, np.ndarray) and not _arrays.is_torch(array):
            return array  # sparse rows are sent by their tile, compressed
        tensor = as_tensor(array)
        if tensor.device == self.device:
            return tensor
        if self.stream is not None and tensor.device.type == "cpu":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=self.stream is not None)
