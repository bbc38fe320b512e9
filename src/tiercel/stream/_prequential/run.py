"""What happens at each sample? Predict, judge, learn, and what went wrong."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from tiercel.stream._prequential.gate import Gate
from tiercel.stream._prequential.models import Contender
from tiercel.stream._prequential.samples import Sample, Samples, unpack
from tiercel.stream._prequential.tally import Answer, Tally


def run(
    samples: Samples, model: Contender, gate: Gate | None, tally: Tally, skip: bool
) -> None:
    """Take the model through the stream."""
    rejected: ValueError | ArithmeticError | None = None
    for t, pair in enumerate(samples.pairs):
        given, y = unpack(pair)
        try:
            sample = samples.read(given, y)
            answer = step(samples, model, gate, sample)
        except (ValueError, ArithmeticError) as error:
            if not skip:
                error.add_note(
                    f"This was sample {t} of the stream (counted from 0); "
                    "on_error='skip' leaves such samples out."
                )
                raise
            rejected = error
            tally.reject()
        else:
            tally.add(sample.x, sample.target, answer)
    if rejected is not None and not tally.any_accepted():
        raise ValueError(
            f"every sample was rejected, the last one as: {rejected}"
        ) from rejected


def step(
    samples: Samples, model: Contender, gate: Gate | None, sample: Sample
) -> Answer:
    """Let the model predict one sample and learn it."""
    x, y = model.prepare(sample)
    if model.predict_learn is not None:
        start = perf_counter()
        answer = model.predict_learn(x, y)
        seconds = perf_counter() - start
        return Answer(*numbers(answer, samples), False, seconds)
    start = perf_counter()
    answer = model.answer(x)
    seconds = perf_counter() - start
    mean, std = numbers(answer, samples)
    closed = False
    if gate is not None and mean is not None:
        closed = gate.closes(sample.target - mean, std)
    if model.learn is not None and not closed:
        start = perf_counter()
        model.learn(x, y)
        seconds += perf_counter() - start
        model.taught = True
    return Answer(mean, std, closed, seconds)


def numbers(
    answer: Any, samples: Samples
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the mean and the standard deviation in an answer; labels as their code.

    They are copies, as a model may write its next answer where it wrote this one.
    """
    if answer is None:
        return None, None
    if samples.are_labels:
        return np.array([samples.code(answer)], np.float64), None
    mean, std = answer if isinstance(answer, tuple) else (answer, None)
    T = len(samples.output_names)
    mean = np.array(mean, np.float64).reshape(-1)
    if mean.shape != (T,):
        raise TypeError(f"the model predicts {mean.size} outputs, the stream has {T}")
    if std is not None:
        std = np.broadcast_to(np.array(std, np.float64).reshape(-1), (T,))
    return mean, std
