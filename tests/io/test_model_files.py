"""The file: any damage is noticed before anything is built, and others can read it."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import safetensors
from holders import OWN, Factor, Holder, forge, parts, same, sign
from safetensors.numpy import load_file, save_file

from tiercel.io import _file, describe, load, save
from tiercel.kernels import Gaussian

CODES = np.array([0x110000], dtype="<u4").tobytes()


@pytest.fixture
def path(tmp_path):
    model = Holder(Gaussian(np.array([1.0, 2.0])))
    model.coef_ = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    model.mask_ = np.array([True, False])
    model.rng_ = np.random.default_rng(0)
    save(model, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def refused(path, reason):
    with pytest.raises(ValueError, match=f"{path.name} cannot be loaded: .*{reason}"):
        load(path, classes=OWN)


def test_the_reference_reader_of_the_format_finds_the_arrays(path):
    arrays = load_file(path)
    np.testing.assert_array_equal(arrays["model.coef_"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(arrays["model.value.length_scale"], [1.0, 2.0])
    assert arrays["model.mask_"].dtype == bool


def test_the_file_is_as_documented(path):
    raw = path.read_bytes()
    start = b'{"__metadata__":{"tiercel_format":"1","sha256":"'
    assert raw[8:].startswith(start)
    digits = slice(8 + len(start), 8 + len(start) + 64)
    unsigned = raw[: digits.start] + b"0" * 64 + raw[digits.stop :]
    assert raw[digits].decode() == hashlib.sha256(unsigned).hexdigest()
    header, data = parts(path)
    coef = header["model.coef_"]
    assert (coef["dtype"], coef["shape"]) == ("F64", [2, 3])
    found = np.frombuffer(data[slice(*coef["data_offsets"])], "<f8")
    np.testing.assert_array_equal(found, np.arange(6.0))
    *_, model = header["__metadata__"]["document"]["objects"]
    assert model["class"] == "holders:Holder"
    assert model["parameters"] == {"value": {"object": 0}}
    assert model["state"]["coef_"] == {"array": ["model.coef_", "F"]}


def test_arrays_of_any_kind_lie_aligned_and_readable_for_others(tmp_path):
    names = ("bool", "int8", "uint16", "float16", "int32", "float32", "uint64")
    values = {name: np.arange(3).astype(name) for name in names}
    values |= {"empty": np.zeros((0, 3)), "one": np.array(1.5)}
    values[">"] = np.arange(3, dtype=">i2")
    save(Holder(values), tmp_path / "m")
    found = load_file(tmp_path / "m")
    for name, value in values.items():
        native = value.astype(value.dtype.newbyteorder("="))
        assert same(found[f"model.value['{name}']"], native)
    header, _ = parts(tmp_path / "m")
    for name in values:
        entry = header[f"model.value['{name}']"]
        assert entry["data_offsets"][0] % values[name].itemsize == 0
    length = int.from_bytes((tmp_path / "m").read_bytes()[:8], "little")
    assert length % 8 == 0


def test_awkward_names_do_not_disturb_other_readers(tmp_path):
    values = {"\ud800": np.arange(2), "ä" * 100: np.arange(3), 0: np.ones(1)}
    values |= {10**5000: np.arange(5)}
    save(Holder(values), tmp_path / "m")
    assert sorted(map(len, load_file(tmp_path / "m").values())) == [1, 2, 3, 5]
    assert same(load(tmp_path / "m", classes=OWN).value, values)


def test_truncation_anywhere_is_noticed(path):
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    lengths = {0, 1, 7, 8, 9, 60, 119, 120, header - 1, header, header + 1}
    for length in (lengths | {len(whole) - 1}) | set(range(0, len(whole), 97)):
        path.write_bytes(whole[:length])
        refused(path, "(truncated|its first bytes are lost)")
    path.write_bytes(whole + b"\0")
    refused(path, "truncated or damaged: its arrays take")


def test_any_changed_byte_is_noticed(path):
    whole = path.read_bytes()
    for i in range(0, len(whole), 3):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        refused(path, "")


def test_blanks_that_mean_nothing_are_part_of_the_checksum(path):
    header, data = parts(path)
    raw = forge(path, header).read_bytes()
    text = raw[8:].replace(raw[56:120], b"0" * 64)
    sign(path, (len(text) + 8).to_bytes(8, "little") + text + b" " * 8 + data)
    assert load(path, classes=OWN).mask_[0]
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b" " * 8, b"\n" * 8))
    refused(path, "its checksum does not agree")


def test_nothing_is_built_from_a_damaged_file(path, monkeypatch):
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    monkeypatch.setattr(Holder, "__init__", lambda self, value=None: 1 / 0)
    refused(path, "checksum does not agree")


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"PK\x03\x04" * 50, b"{}"])
def test_foreign_files_are_refused(content, path):
    path.write_bytes(content)
    refused(path, "it was not written by tiercel.save")


def test_safetensors_files_of_others_are_refused(path):
    save_file({"a": np.ones(100)}, path)
    refused(path, "it was not written by tiercel.save")
    with pytest.raises(FileNotFoundError):
        load(path.with_name("absent"))


def test_a_newer_format_is_named_as_such(path):
    header, data = parts(path)
    header["__metadata__"] = {"tiercel_format": "2", "sha256": "", "novel": ""}
    header["__metadata__"]["document"] = "in a way of its own"
    forge(path, header, data)
    refused(path, "it has format 2, of a newer Tiercel; .* upgrade Tiercel")


def damaged(shape, offsets, dtype="F64"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


PLACE, SHAPE, SIZE = "lie where it should", "known dtype or shape", "its arrays take"


@pytest.mark.parametrize(
    ("entries", "size", "reason"),
    [
        ({"a": damaged([2**40], [0, 2**43])}, 0, SIZE),
        ({"a": damaged([2**40], [0, 2**43])}, 8, SIZE),
        ({"a": damaged([2**40], [0, 8])}, 8, PLACE),
        ({"a": damaged([2**61, 8], [0, 0])}, 0, PLACE),
        ({"a": damaged([2**32, 2**32], [0, 0])}, 0, PLACE),
        ({"a": damaged([1], [8, 16])}, 8, PLACE),
        ({"a": damaged([1], [0, 8]), "b": damaged([1], [0, 8])}, 8, PLACE),
        ({"a": damaged([1], [0, 8]), "b": damaged([1], [0, 8])}, 16, PLACE),
        ({"a": damaged([1], [8, 16]), "b": damaged([1], [0, 8])}, 16, PLACE),
        ({"a": damaged([1], [0, 8])}, 16, SIZE),
        ({"a": damaged([-1], [0, 8])}, 8, SHAPE),
        ({"a": damaged([-1, -1], [0, 8])}, 8, SHAPE),
        ({"a": damaged([True], [0, 8])}, 8, SHAPE),
        ({"a": damaged([1.0], [0, 8])}, 8, SHAPE),
        ({"a": damaged(["1"], [0, 8])}, 8, SHAPE),
        ({"a": damaged([1] * 65, [0, 8])}, 8, SHAPE),
        ({"a": damaged([0, 2**63], [0, 0])}, 0, SHAPE),
        ({"a": damaged([1], [0, 8], "F65")}, 8, SHAPE),
        ({"a": damaged([0, 2**62, 2**62], [0, 0])}, 0, ""),
        ({"a": damaged([1], "here")}, 8, "no proper data_offsets"),
        ({"a": damaged({}, [0, 8])}, 8, "no proper shape"),
        ({"a": damaged([1], [0, 8], 1)}, 8, "no proper dtype"),
        ({"a": [1, 2]}, 0, "no proper dtype"),
        ({"a": damaged([2], [0, 2], "BOOL")}, 2, "neither true nor false"),
    ],
)
def test_sizes_in_a_header_are_not_believed(entries, size, reason, path):
    save(Holder("no arrays"), path)
    header, _ = parts(path)
    forge(path, {**header, "fine": damaged([2], [0, 2], "I8")}, b"\2\2")
    assert load(path, classes=OWN).value == "no arrays"
    forge(path, header | entries, b"\2" * size)
    refused(path, reason)


def test_a_header_that_claims_terabytes_is_refused(path):
    raw = path.read_bytes()
    for length in (2**63, 2**40, len(raw) - 7, 99_999_999, 100_000_001):
        path.write_bytes(length.to_bytes(8, "little") + raw[8:])
        refused(path, "it is truncated or damaged")


def test_deep_json_is_refused(path):
    header, data = parts(path)
    for bomb in ("[" * 10**6 + "]" * 10**6, '{"a":' * 10**6, "[" * 10**6):
        header["__metadata__"]["document"] = bomb
        forge(path, header, data)
        refused(path, "its JSON cannot be read")
    start = path.read_bytes()[8:120] + b'","a":' + b"[" * 10**6
    unsigned = start.replace(start[48:112], b"0" * 64)
    sign(path, len(unsigned).to_bytes(8, "little") + unsigned)
    refused(path, "its JSON cannot be read")


@pytest.mark.parametrize(
    "node",
    [
        {"array": ["nowhere", "C"]},
        {"array": "model.coef_"},
        {"text": ["model.coef_", "C"]},
        {"text": ["codes", "C"]},
        {"object": 2},
        {"object": -1},
        {"object": 10**9},
        {"object": True},
        {"objects": [[-1], "C", [1]]},
        {"objects": [[2**40], "C", [1]]},
        {"objects": [[0, 2**62, 2**62], "C", []]},
        {"scalar": ["int8", 300]},
        {"scalar": ["float128", 1]},
        {"scalar": ["float64", [1, 2]]},
        {"dtype": "O,O"},
        {"dtype": "{'names': ['a'], 'formats': ['i']}"},
        {"type": "eval"},
        {"type": "numpy.load"},
        {"int": "ten"},
        {"int": 7},
        {"float": "1e5"},
        {"bytes": "?"},
        {"characters": [-1]},
        {"dict": [[[], 1]]},
        {"dict": {"a": 1}},
        {"slice": [1, 2, 3, 4]},
        {"set": [[]]},
        {"tensor": 1},
        {"sparse": ["coo_matrix", [1, 1], [], [], []]},
        {"tuple": [], "set": []},
        {},
        {"_each": []},
        {"code": "print()"},
        {"tuple": 1},
    ],
    ids=str,
)
def test_nodes_that_make_no_sense_are_refused(node, path):
    header, data = parts(path)
    for entry in header.values():
        if "data_offsets" in entry:
            end = entry["data_offsets"][1]
    header["codes"] = damaged([1], [end, end + 4], "U32")
    header["__metadata__"]["document"]["objects"][-1]["state"]["coef_"] = node
    forge(path, header, data + CODES)
    refused(path, r"holders.Holder \(object 2\): ")


def test_values_nested_deeper_than_can_be_saved_are_refused(path):
    header, data = parts(path)
    node = 1
    for _ in range(66):
        node = {"tuple": [node]}
    header["__metadata__"]["document"]["objects"][-1]["state"]["coef_"] = node
    forge(path, header, data)
    refused(path, "nested deeper than 64 levels")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"versions": {}, "objects": []},
        {"versions": {"tiercel": "1", "sklearn": "1"}, "objects": []},
        {"versions": {"tiercel": "1", "sklearn": "1"}, "objects": [1]},
        {"versions": {"tiercel": "1", "sklearn": "1"}, "objects": {"class": "a"}},
        {"versions": {"tiercel": "1", "sklearn": "1"}, "objects": [{"state": {}}]},
        {"versions": [], "objects": [{"class": "holders:Holder"}]},
        [],
        "[NaN]",
    ],
    ids=str,
)
def test_documents_that_make_no_sense_are_refused(document, path):
    header, data = parts(path)
    header["__metadata__"]["document"] = document
    forge(path, header, data)
    refused(path, "")
    with pytest.raises(ValueError, match="cannot be loaded"):
        describe(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("MT19937", lambda state: state["state"]["dict"][1].__setitem__(1, 10**6)),
        ("MT19937", lambda state: state["state"]["dict"][1].__setitem__(1, -1)),
        ("Philox", lambda state: state["buffer_pos"].__setitem__(0, 5)),
        ("Philox", lambda state: state["buffer_pos"].__setitem__(0, -5)),
        ("Philox", lambda state: state["bit_generator"].__setitem__(0, "Generator")),
        ("Philox", lambda state: state["state"]["dict"].pop()),
    ],
)
def test_states_of_generators_that_would_read_elsewhere_are_refused(
    name, change, tmp_path
):
    save(Holder(np.random.Generator(getattr(np.random, name)(0))), tmp_path / "m")
    header, data = parts(tmp_path / "m")
    rng = header["__metadata__"]["document"]["objects"][0]["generator"]
    # Each member in a list of its own, so that a change can replace it.
    members = {key: value if isinstance(value, dict) else [value]
               for key, value in rng["state"]["dict"]}  # fmt: skip
    change(members)
    rng["state"]["dict"] = [
        [key, value[0] if isinstance(value, list) else value]
        for key, value in members.items()
    ]
    forge(tmp_path / "m", header, data)
    refused(tmp_path / "m", "")


@pytest.mark.parametrize(
    ("part", "values"),
    [("indices", [0, 7]), ("indices", [0, -1]), ("indptr", [0, 9, 2]), ("data", [1.0])],
)
def test_sparse_matrices_that_would_read_elsewhere_are_refused(part, values, tmp_path):
    from scipy import sparse

    matrix = sparse.csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
    setattr(matrix, part, np.array(values, dtype=getattr(matrix, part).dtype))
    save(Holder(matrix), tmp_path / "m")
    refused(tmp_path / "m", "")


def test_what_an_object_checks_itself_is_told(tmp_path):
    save(Factor(3).fit(), tmp_path / "m")
    header, data = parts(tmp_path / "m")
    header["__metadata__"]["document"]["objects"][0]["parameters"]["size"] = 4
    forge(tmp_path / "m", header, data)
    refused(tmp_path / "m", r"holders.Factor \(object 0\): R is not 4 by 4")


def test_a_document_too_long_for_the_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_file, "LARGEST_HEADER", 10_000)
    save(Holder(["label"] * 500), tmp_path / "m")
    with pytest.raises(ValueError, match="outside its arrays, but a file takes 10,000"):
        save(Holder(["label"] * 2000), tmp_path / "m")
    assert len(load(tmp_path / "m", classes=OWN).value) == 500


def test_a_file_is_described_without_its_classes(path):
    facts = describe(path)
    assert facts["class"] == "holders.Holder"
    assert facts["classes"] == ["holders.Holder", "tiercel.kernels.Gaussian"]
    assert facts["bytes"] == path.stat().st_size
    assert facts["intact"]
    assert facts["format"] == 1
    assert facts["versions"]["numpy"] == np.__version__
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    assert not describe(path)["intact"]


def test_the_test_forgery_is_believed(path):
    assert load(forge(path, *parts(path)), classes=OWN).coef_.shape == (2, 3)
    with safetensors.safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["document"])["versions"]
