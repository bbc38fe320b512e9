"""What do I learn from one sample at a time, at constant cost?"""

from tiercel.stream.frozen import FrozenPredictor
from tiercel.stream.hyperparameters import SpectrumHyperparameters
from tiercel.stream.output_groups import OutputGroups
from tiercel.stream.recursive_ridge import RecursiveRidge
from tiercel.stream.sparse_spectrum_gp import SparseSpectrumGP

__all__ = [
    "FrozenPredictor",
    "OutputGroups",
    "RecursiveRidge",
    "SparseSpectrumGP",
    "SpectrumHyperparameters",
]
