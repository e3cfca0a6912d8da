"""Data from files: whole numbers stay what they are, words are numbered, and what is neither is refused."""

import gzip

import numpy as np
import pytest

from tacit import BadInput
from tacit.data import columns_of, frames, load


@pytest.fixture
def table(tmp_path):
    def write(text, name="t.csv", **columns):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return load(str(tmp_path / name), **{"label": "y", **columns})

    return write


def test_whole_labels_keep_their_numbers(table):
    """As text, 10 comes before 2; a model's eleventh column is still class 10."""
    assert table("a,y\n" + "".join(f"{k},{k}\n" for k in range(12))).y.tolist() == list(range(12))
    assert table("a,y\n1,3\n2,5\n").y.tolist() == [3, 5]
    assert table("a,y\n1,0.0\n2,1.0\n").y.tolist() == [0, 1]


def test_words_are_numbered_and_remembered(table):
    found = table("a,colour,y\n1,red,cat\n2,blue,dog\n3,red,dog\n")
    assert found.y.tolist() == [0, 1, 1]
    assert found.x.tolist() == [[1, 0, 1], [2, 1, 0], [3, 0, 1]]
    assert found.words == {"colour": ("blue", "red"), "y": ("cat", "dog")}
    assert table("a,y\n1,-1\n2,1\n").y.tolist() == [0, 1]


def test_members_are_said_with_0_and_1(table):
    assert table("a,y,m\n1,0,1\n2,1,False\n3,0,true\n", members="m").members.tolist() == [True, False, True]
    with pytest.raises(BadInput, match="column m must hold 0 or 1"):
        table("a,y,m\n1,0,yes\n2,1,no\n", members="m")


def test_blank_lines_and_a_byte_order_mark_are_nothing(table):
    assert len(table("\ufeffa,y\n1,0\n\n2,1\n\n").x) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,y\n", "no rows"),
        ("a,y\n1,0\n2\n", "record 2 .line 3. has 1 values"),
        ("a,a,y\n1,2,0\n", "two columns named 'a'"),
        ("a,y\n1,0\n,1\n2,1\n", "Column 'a' holds no finite number in 1 of 3 records, the first of them record 2"),
        ("a,y\n1,0\nNA,1\n2,1\n", "Column 'a' holds no finite number"),
        ("a,y\n1,\n2,1\n", "a label in every row"),
        ("a,y\n1,0.5\n2,1\n", "whole numbers or words"),
        ("y\n0\n1\n", "at least one column besides"),
        ("a;z\n1;0\n", "has no column 'y'"),
        ("a,y\n" + "1" * 200_000 + ",0\n", "Column 'a' holds no finite"),
    ],
)
def test_what_is_no_table_is_refused(table, text, said):
    with pytest.raises(BadInput, match=said):
        table(text)


def test_one_column_has_one_role(table):
    with pytest.raises(BadInput, match="different columns"):
        table("a,y\n1,0\n", members="y")


def test_a_broken_archive_is_refused(tmp_path):
    whole = gzip.compress(b"a,y\n" + b"1,0\n" * 500)
    for name, content in (("a.csv.gz", whole[:30]), ("b.csv.gz", b"hello"), ("c.npz", b"PK\x03\x04x"), ("d.npz", b"x")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput):
            load(str(tmp_path / name), **({"label": "y"} if ".csv" in name else {}))


X, Y = np.zeros((4, 2)), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    "arrays",
    [
        {"a": X, "b": Y},
        {"x": np.array([{}, []], dtype=object), "y": Y},
        {"x": np.array([["a"]] * 4), "y": Y},
        {"x": X + 1j, "y": Y},
        {"x": np.array(3.0), "y": np.array(1)},
        {"x": X[:, 0], "y": Y},
        {"x": X, "y": np.eye(2)[Y]},
        {"x": X, "y": Y[:-1]},
        {"x": X, "y": Y + 0.5},
        {"x": X, "y": np.where(Y == 0, np.nan, 1.0)},
        {"x": X, "y": Y, "members": np.array(["yes", "no"] * 2)},
        {"x": X, "y": Y, "members": np.full(4, 0.3)},
        {"x": X, "y": Y, "members": np.ones((4, 2))},
        {"x": X, "y": Y, "groups": np.array(3)},
        {"x": np.full((4, 2), np.inf), "y": Y},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(BadInput):
        load(str(tmp_path / "t.npz"))


def test_an_array_alone_is_no_archive(tmp_path):
    np.save(tmp_path / "t.npy", X)
    (tmp_path / "t.npy").rename(tmp_path / "t.npz")
    with pytest.raises(BadInput, match="not an"):
        load(str(tmp_path / "t.npz"))
    np.savez(tmp_path / "u.npz", x=X, y=Y, members=Y, groups=np.array(list("aabb")))
    found = load(str(tmp_path / "u.npz"))
    assert found.members.tolist() == [False, True, False, True]
    assert found.groups.tolist() == list("aabb")


def test_public_lists_of_words_decide_and_other_values_never_raise(table):
    """A feature outside its list is all zeros, a record with another label is left out."""
    text = "a,colour,y\n1,red,dog\n2,green,cat\n3,blue,bird\n"
    found = table(text, categories={"colour": ["blue", "red"], "y": ["dog", "cat", "fish"]})
    assert found.x.tolist() == [[1, 0, 1], [2, 0, 0]]
    assert found.y.tolist() == [0, 1]
    assert found.derived == ()
    assert table(text).derived == ("colour", "y")
    assert table(text, categories={"colour": ["red"]}).derived == ("y",)
    with pytest.raises(BadInput, match="no column 'size'"):
        table(text, categories={"size": ["small"]})


def test_neighbouring_files_have_the_same_columns_only_with_public_lists(table):
    """One more record with a word of its own adds a feature: data-dependent, so no proof can cover it."""
    one, two = "a,w,y\n1,p,0\n2,q,1\n", "a,w,y\n1,p,0\n2,q,1\n3,z,1\n"
    assert table(one).x.shape[1] != table(two).x.shape[1]
    lists = {"categories": {"w": ["p", "q"]}}
    assert table(one, **lists).x.tolist() == table(two, **lists).x[:2].tolist()


def test_whose_record_each_one_is(table, tmp_path):
    assert table("a,y,who\n1,0,ann\n2,1,bob\n", unit="who").unit.tolist() == ["ann", "bob"]
    np.savez(tmp_path / "t.npz", x=X, target=Y, who=np.array([1, 1, 2, 2]))
    found = load(str(tmp_path / "t.npz"), label="target", unit="who")
    assert (found.y.tolist(), found.unit.tolist()) == (Y.tolist(), [1, 1, 2, 2])
    np.savez(tmp_path / "u.npz", x=X, y=Y)
    with pytest.raises(BadInput, match="has no who"):
        load(str(tmp_path / "u.npz"), unit="who")


def test_people_are_told_apart_by_the_spelling_of_their_ids(tmp_path):
    """Two people who were taken for one user would each move a sum by two clip norms."""
    (tmp_path / "s.toml").write_text(
        'label = "y"\nunit = "who"\n[columns]\na = {kind = "number", range = [0, 9]}\n'
        'y = {kind = "category", words = ["0", "1"]}\n'
    )
    (tmp_path / "t.csv").write_text("a,y,who\n1,0,007\n2,1,7\n3,0,7.0\n4,1, 7\n5,1,\n6,0,1e2\n7,0,100\n")
    found = load(str(tmp_path / "t.csv"), schema=str(tmp_path / "s.toml")).unit.tolist()
    assert len(found) == 6  # without an id a record is nobody's
    assert found[1] == found[2] == found[3]
    assert len({found[0], found[1], found[4], found[5]}) == 4


@pytest.mark.needs("pyarrow")
def test_decimal_ids_are_not_merged_and_nan_is_nobodys_id(tmp_path):
    """Databases write whole numbers of many digits as decimals; double precision took two people for one."""
    import pyarrow
    import pyarrow.parquet

    large = pyarrow.array([2**60, 2**60 + 1, 2**60, None], pyarrow.decimal128(38, 0))
    assert frames.table(pyarrow.table({"who": large}))["who"].as_ids()[0].tolist() == [0, 1, 0, -1]
    fractions = pyarrow.array([2.0, float("nan"), float("nan"), None])
    pyarrow.parquet.write_table(pyarrow.table({"who": fractions}), tmp_path / "t.parquet")
    assert columns_of(tmp_path / "t.parquet")["who"].as_ids()[0].tolist() == [0, -1, -1, -1]


@pytest.mark.needs("sklearn")
@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_embedded_data_are_scaled_by_public_constants(name):
    """Nothing but a fixed constant lies between the stored numbers and the features."""
    from sklearn import datasets

    raw = getattr(datasets, f"load_{name.replace('-', '_')}")().data
    found = load(name).x
    assert (found >= 0).all()
    assert (found <= 1).all()
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = raw / found
    for column in ratio.T:
        known = column[np.isfinite(column)]
        assert known.size == 0 or np.ptp(known) < 1e-4 * known.max()
    with pytest.raises(BadInput, match="has no columns to name: label"):
        load(name, label="y")


@pytest.mark.parametrize("damage", ["cut", "absent", "shape"])
def test_a_damaged_file_of_a_known_data_set_is_one_sentence(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    arrays = {
        "x_train": np.zeros((4, 2, 2)),
        "x_test": np.zeros((2, 2, 2)),
        "y_train": np.zeros(4),
        "y_test": np.ones(2),
    }
    arrays |= {"shape": {"x_test": np.zeros((2, 3))}}.get(damage, {})
    np.savez(
        tmp_path / "mnist.npz", **{name: part for name, part in arrays.items() if damage != "absent" or name < "y"}
    )
    path = tmp_path / "mnist.npz"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(BadInput, match=r"mnist\.npz"):
        load("mnist")
