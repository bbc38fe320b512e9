"""What do I learn from one sample at a time, at constant cost?

**Learners.** All of them predict and learn in one call, ``predict_update(x, y)``, and
``partial_fit`` takes many rows and ends at the same model. But for the last, a sample's
cost does not depend on how many came before, and the model is the batch solution to
rounding.

- :class:`RecursiveRidge`: ridge regression over any features, with forgetting, sliding
  windows, removal of samples, and models trained apart that merge.
- :class:`SparseSpectrumGP`: the same with error bars, and hyperparameters by the
  marginal likelihood (:func:`optimize_spectrum`, :func:`optimize_gaussian_process`).
- :class:`IncrementalClassifier`: classes that appear on the way, rare ones recoded.
- :class:`OutputGroups`: outputs of different kinds, a model for each kind.
- :class:`LocallyWeightedProjection`: the competitor of old (LWPR), whose cost grows.

**Watching.** :class:`ChangeDetector` and :class:`ThresholdDetector` tell from residuals
when the world has changed. :func:`prequential` and :func:`prequential_repeats` evaluate
one step ahead, beside persistence and the nearest neighbour.

**On the robot.** :func:`latency_report` says how many features fit into a control
period, :func:`export_c` writes a model as a C header, ``freeze()`` leaves a small
:class:`FrozenPredictor`. :mod:`tiercel.stream.river` makes River models of learners.

Every learner is single-threaded on purpose: threads would make the time of a sample
less predictable. A Tiercel learner for all rows at once takes ``penalty``, the weight
of the norm against the *mean* loss; here ``ridge`` is its weight against the *sum*,
because the number of samples grows: ridge = n * penalty.
"""

from __future__ import annotations

from tiercel.stream.batch_references import ClassMoments, rebalanced, recoded
from tiercel.stream.c_code import export_c
from tiercel.stream.detectors import ChangeDetector, ThresholdDetector
from tiercel.stream.evaluation import (
    PrequentialReport,
    Repeats,
    prequential,
    prequential_repeats,
)
from tiercel.stream.frozen import FrozenPredictor
from tiercel.stream.hyperparameters import (
    SpectrumHyperparameters,
    gaussian_process_predict,
    optimize_gaussian_process,
    optimize_spectrum,
    ridge_equivalent,
)
from tiercel.stream.incremental_classifier import IncrementalClassifier
from tiercel.stream.latency import LatencyReport, latency_report, operations
from tiercel.stream.locally_weighted import LocallyWeightedProjection
from tiercel.stream.output_groups import OutputGroups
from tiercel.stream.recursive_ridge import RecursiveRidge
from tiercel.stream.sparse_spectrum_gp import SparseSpectrumGP

__all__ = [
    "ChangeDetector",
    "ClassMoments",
    "FrozenPredictor",
    "IncrementalClassifier",
    "LatencyReport",
    "LocallyWeightedProjection",
    "OutputGroups",
    "PrequentialReport",
    "RecursiveRidge",
    "Repeats",
    "SparseSpectrumGP",
    "SpectrumHyperparameters",
    "ThresholdDetector",
    "export_c",
    "gaussian_process_predict",
    "latency_report",
    "operations",
    "optimize_gaussian_process",
    "optimize_spectrum",
    "prequential",
    "prequential_repeats",
    "rebalanced",
    "recoded",
    "ridge_equivalent",
]
