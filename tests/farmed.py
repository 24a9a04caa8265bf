"""Functions that workers can import, and executors that lose workers, for the tests of executors."""

from __future__ import annotations

import os
import pickle
import signal
import time
from concurrent.futures import Executor, Future

import jax.numpy as jnp
import numpy as np

import ellipslice as es
from ellipslice.engines.workers import remote

TARGET = np.linspace(-1.0, 1.0, 8)
PRIOR = es.Dense(np.exp(-0.5 * np.subtract.outer(np.arange(8), np.arange(8)) ** 2 / 9), mean=0.1)


def bowl(f):
    return float(-4.0 * np.square(np.asarray(f) - TARGET).sum())


def slow_bowl(f):
    time.sleep(0.01)
    return bowl(f)


def traced_bowl(f):
    return -4.0 * jnp.sum((f - TARGET) ** 2)


def bowl_of(y):
    """Return a Gaussian log-likelihood that JAX cannot trace."""
    return Bowl(y)


class Bowl:
    def __init__(self, y):
        self._y = np.asarray(y, float)

    def __call__(self, f):
        return float(-2.0 * np.square(np.asarray(f) - self._y).sum())


def smooth(amplitude):
    from tinygp import kernels

    return amplitude**2 * kernels.Matern32(2.0)


class AwkwardError(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, what, where):
        super().__init__(f"{what} at {where}")


def awkward(f):
    if os.environ.get("ELLIPSLICE_TEST_AWKWARD"):
        raise AwkwardError("broken", "home")
    return bowl(f)


def hangs_now_and_then(spared, f):
    """Return the log-likelihood, but hang for some f unless the process is `spared`."""
    if os.getpid() != spared and bowl(f) > -6.0:
        time.sleep(60.0)
    return bowl(f)


def deadly(folder, spared, f):
    """Return the log-likelihood.

    For some f, first kill the process, unless it is `spared`: once for each file in `folder`.
    """
    for file in folder.iterdir() if os.getpid() != spared and bowl(f) > -12.0 else ():
        file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return bowl(f)


class Pickled(Executor):
    """An executor that runs tasks immediately in this process, on pickled copies of the arguments and the results.

    `trouble` is called before each task, with its number, and may raise instead of it. The payloads of the worker are
    dropped before a task if `forget` returns True for its number.
    """

    def __init__(self, trouble=lambda number: None, forget=lambda number: False):
        self._trouble, self._forget, self.sent, self.bytes = trouble, forget, 0, []

    def submit(self, function, /, *arguments):
        future: Future = Future()
        if function is not remote.run_task:
            future.set_result(function(*arguments))
            return future
        self.sent += 1
        if self._forget(self.sent):
            remote._payloads.clear()
        parcel = pickle.dumps(arguments)
        self.bytes.append(len(parcel))
        try:
            self._trouble(self.sent)
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
            return future
        try:
            future.set_result(pickle.loads(pickle.dumps(function(*pickle.loads(parcel)))))
        except Exception as error:  # noqa: BLE001
            future.set_exception(pickle.loads(pickle.dumps(error)))
        return future
