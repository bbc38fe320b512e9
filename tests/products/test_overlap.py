"""Reading beside computing, operations side by side, and what is left by a failure."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from dense_oracle import error, problem
from threadpoolctl import ThreadpoolController

from tiercel import kernels as k
from tiercel import products
from tiercel.products.ordered import Shared, ordered_map, single_threaded_blas


def in_threads(count, work):
    """Run ``work(i)`` on so many threads at once; return the results in order."""
    results = [None] * count

    def run(i):
        results[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def ours():
    return [t for t in threading.enumerate() if t.name.startswith("tiercel")]


def blas_threads():
    return [
        lib.num_threads
        for lib in ThreadpoolController().select(user_api="blas").lib_controllers
    ]


def test_a_shared_setting_lasts_from_the_first_to_the_last():
    log = []

    def make():
        log.append("made")
        return lambda: log.append("undone")

    setting = Shared(make)
    first, second = setting.held(), setting.held()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert log == ["made"]
    second.__exit__(None, None, None)
    assert log == ["made", "undone"]
    with pytest.raises(KeyError), setting.held():
        raise KeyError
    assert log == ["made", "undone"] * 2


def test_blas_has_its_threads_back_when_overlapping_operations_are_done():
    before = blas_threads()
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) <= {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_results_come_in_order_whatever_takes_longer():
    gates = [threading.Event() for _ in range(4)]
    done = []

    def work(i):
        if i < 3:
            assert gates[i + 1].wait(10)  # each waits for the next to be done
        gates[i].set()
        done.append(i)
        return i

    assert list(ordered_map(work, range(4), threads=4)) == [0, 1, 2, 3]
    assert done[0] == 3


def test_one_operator_serves_several_threads():
    X, Z, V, U, w = problem("float64", n=3000)
    K = k.Gaussian(2.0)(X, Z)
    op = products.KernelOperator(k.Gaussian(2.0), X, Z, threads=2, keep=True)

    def work(i):
        return op.product(V), op.cross_product(U), op.gram_product(V, w), op.gram()

    exact = K @ V, K.T @ U, K.T @ (w[:, None] * (K @ V)), K.T @ K
    for found in in_threads(3, work):
        for result, expected in zip(found, exact, strict=True):
            assert error(result, expected) < 1e-13


class Meeting(k.Kernel):
    """A kernel that waits until the rows after those in hand are being read."""

    def __init__(self, reading=None):
        self.reading = reading

    def evaluate(self, X, Z):
        block = int(X[0, 0]) // 100
        assert block == 9 or self.reading[block + 1].wait(10)
        return X @ Z.T


@pytest.mark.parametrize("on_device", [False, True])
def test_the_next_block_is_read_while_one_is_worked_on(on_device):
    reading = [threading.Event() for _ in range(10)]
    X = np.arange(1000.0)[:, None]

    def read(start, stop):
        assert stop - start == 100
        reading[start // 100].set()
        return X[start:stop]

    rows = products.GeneratedRows(read, X.shape)
    op = products.KernelOperator(Meeting(reading), rows, np.ones((1, 1)), threads=1)
    op = small_blocks(op, 100, on_device)
    assert np.array_equal(op.product(np.ones(1)), X[:, 0])


def small_blocks(op, rows, on_device):
    """Make an operator read blocks of so many rows."""
    if on_device:
        torch = pytest.importorskip("torch")
        op.devices, op.device_memory = [torch.device("cpu")], 10**9
        engine = op._on_devices
        plan = engine.plan
        engine.plan = lambda *a: replace(plan(*a), block_rows=rows, tile_rows=rows)
    else:
        plan = op._recomputing
        op._recomputing = lambda p: replace(plan(p), block_rows=rows, tile_rows=rows)
    return op


def test_errors_of_a_reader_name_the_rows():
    def read(start, stop):
        if stop > 500:
            raise OSError("the disk is gone")
        return np.ones((stop - start, 2))

    rows = products.GeneratedRows(read, (1000, 2))
    op = products.KernelOperator(k.Gaussian(), rows, np.ones((3, 2)))
    op = small_blocks(op, 100, on_device=False)
    with pytest.raises(OSError, match="disk is gone") as caught:
        op.gram_product(np.ones(3))
    assert caught.value.__notes__ == ["while rows 500 to 600 were read"]


VERBS = {
    "product": lambda op, V, U: op.product(V),
    "cross_product": lambda op, V, U: op.cross_product(U),
    "gram_product": lambda op, V, U: op.gram_product(V),
    "gram": lambda op, V, U: op.gram(),
    "matrix": lambda op, V, U: op.matrix(),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("stop", [KeyError, KeyboardInterrupt])
@pytest.mark.parametrize("on_device", [False, True])
def test_a_callback_that_raises_leaves_no_thread_behind(verb, stop, on_device):
    X, Z, V, U, _ = problem("float64", n=3000)
    rows = products.GeneratedRows(lambda a, b: X[a:b], X.shape)
    op = products.KernelOperator(k.Gaussian(2.0), rows, Z, threads=2)
    op = small_blocks(op, 100, on_device)
    blas = blas_threads()

    def callback(done, total):
        if done >= 1000:
            raise stop("enough")

    op.callback = callback
    with pytest.raises(stop) as caught:
        VERBS[verb](op, V, U)
    # The exception is still held, and with it every frame that it came through.
    assert caught.value is not None
    assert ours() == []
    assert blas_threads() == blas
    op.callback = None
    K = k.Gaussian(2.0)(X, Z)
    assert error(op.product(V), K @ V) < 1e-13
