"""How do data get in and models out?

=================  ================================================================
:func:`save`       write a model to one file, safely: never half a file
:func:`load`       make it again, after checking every byte; no file can run code
:func:`describe`   what a file holds and who wrote it, without building the model
=================  ================================================================

One mechanism serves every estimator, kernel and feature map of Tiercel, alone or inside
scikit-learn's pipelines, and a model goes on where it stopped: arrays, numbers and
random generators come back bit for bit.

**Classes of your own** can be saved if they have ``get_params`` (subclasses of
scikit-learn's ``BaseEstimator`` do; kernels are such) or a ``_restore_state``. ``load``
must be told of them: ``load(path, classes=[MyKernel])``. An object is saved as its
constructor parameters and its state, by default ``vars(obj)``; two methods change that:

``_saved_state(self) -> dict``
    The state: without caches and work buffers, with inner objects laid out as arrays.
    Constructor parameters need not be in it. Before fitting it may be empty.
``_restore_state(self, state) -> None``
    Set the attributes from that dict, on an object fresh from its constructor (or from
    ``__new__``, where there is no ``get_params``). It is not called with an empty
    state after a constructor. The checksum guards against accidents, not against
    somebody who writes a file on purpose: whatever compiled loops or indexing rely on
    (shapes, dtypes, ranges) must be checked here, and ValueError raised.

Values in a state are None, bool, int, float, str, bytes, list, tuple, dict, set,
frozenset, slice; numpy arrays of booleans, integers, floats, texts and objects, numpy
scalars, dtypes and scalar types; numpy's ``Generator`` and ``RandomState``; CSR and CSC
matrices; torch tensors; and objects that can be saved themselves. Subclasses of these,
functions and cycles are refused, with the place where they stand.

**The file** is a `safetensors <https://github.com/huggingface/safetensors>`_ file,
whose arrays any reader of that format finds under names such as ``model.coef_``::

    8 bytes   length of the header, little-endian
    header    {"__metadata__": {"tiercel_format": "1", "sha256": "...",
               "document": "..."}, "model.coef_": {"dtype": "F64", "shape": [3],
               "data_offsets": [0, 24]}, ...}, without blanks, padded with blanks
    arrays    row-major, little-endian, without gaps, in the order of the header

``sha256`` is the checksum of the whole file, taken while its own 64 digits were zeros.
``document`` is JSON: ``{"versions": {...}, "objects": [...]}``. An object is
``{"class": "module:name", "parameters": {...}, "state": {...}}`` (no ``parameters``
without ``get_params``) or a generator ``{"generator": {...}}``,
``{"random_state": {...}}``; parts come before what holds them, and the last object is
the model. JSON's own values stand for themselves; everything else has one member:

=========================================  =========================================
``{"object": 3}``                          the object number 3, counted from 0
``{"array": ["model.coef_", "C"]}``        an array; "F": column-major in memory
``{"text": ["model.classes_", "C"]}``      texts; code points along the last axis
``{"objects": [[2], "C", [1, "a"]]}``      an array of objects: shape, order, values
``{"swapped": {"array": ...}}``            not in the byte order of the machine
``{"tensor": {"array": ...}}``             a torch tensor
``{"bfloat16": {"array": ...}}``           the same, its bits stored as integers
``{"sparse": ["csr_matrix", [2, 3], ..]}`` type, shape, data, indices, indptr
``{"tuple": [1, 2]}``                      also ``set``, ``frozenset``, ``slice``
``{"dict": [["key", 1]]}``                 pairs, in order
``{"scalar": ["float32", 1.5]}``           a numpy scalar
``{"dtype": "<f8"}``, ``{"type": "int"}``  a dtype, a type that numpy reads as one
``{"int": "-0x20000000000001"}``           an integer beyond 2**53, in hexadecimal
``{"float": "nan"}``                       also "inf", "-inf"
``{"bytes": "AAE="}``                      base64
``{"characters": [55357]}``                text with halves of surrogate pairs
=========================================  =========================================
"""

from __future__ import annotations

from tiercel.io.model import describe, load, save

__all__ = ["describe", "load", "save"]
