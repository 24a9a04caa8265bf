"""Reading of tables in common formats, and names of likelihoods and kernels."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from ellipslice.apps.fits.folder import begin, open_folder
from ellipslice.apps.fits.settings import FitSettings, normalise_name
from ellipslice.apps.fits.table import INPUTS, LABELS, Table

ROWS = "time,count\n1.5,3\n2.5,0\n4.0,7\n"


def write(folder, text, name="data.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def columns(path, *names, **options):
    found = Table(path, **options).columns(list(names or ("time", "count")), {"time": INPUTS, "count": LABELS})
    return [column.values.tolist() for column in found.values()]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (ROWS, "data.csv"),
        (ROWS.replace(",", ";"), "data.csv"),
        (ROWS.replace(",", "\t"), "data.csv"),
        (ROWS.replace(",", "\t"), "data.tsv"),
        (ROWS.replace(",", "|"), "data.txt"),
        (ROWS.replace(",", ", "), "data.csv"),
        (ROWS.replace(",", " ,"), "data.csv"),
        (ROWS.replace("\n", "\r\n"), "data.csv"),
        ("\ufeff" + ROWS, "data.csv"),
        ('"time","count"\n"1.5","3"\n"2.5","0"\n"4.0","7"\n', "data.csv"),
        ('what,time,count\n"a;b",1.5,3\n,2.5,0\nc,4.0,7\n', "data.csv"),
        (gzip.compress(ROWS.encode(), mtime=0), "data.csv.gz"),
    ],
)
def test_what_is_between_columns_is_seen(text, name, tmp_path):
    assert columns(write(tmp_path, text, name)) == [[1.5, 2.5, 4.0], [3.0, 0.0, 7.0]]


@pytest.mark.parametrize("delimiter", ["\t", "\\t", "tab"])
def test_a_tab_can_be_typed(delimiter, tmp_path):
    """A shell passes the two characters of '\\t' unchanged."""
    path = write(tmp_path, ROWS.replace(",", "\t"))
    assert columns(path, delimiter=delimiter) == [[1.5, 2.5, 4.0], [3.0, 0.0, 7.0]]


def test_quoted_marks_are_not_between_columns(tmp_path):
    path = write(tmp_path, '"time, in s";count\n1.5;3\n2.5;0\n')
    assert columns(path, "time, in s", "count") == [[1.5, 2.5], [3.0, 0.0]]


def test_decimal_commas(tmp_path):
    path = write(tmp_path, "time;count\n1,5;3\n2,5;0\n")
    with pytest.raises(ValueError, match=r"'1,5' in row 1.*--decimal ','"):
        columns(path)
    assert columns(path, decimal=",") == [[1.5, 2.5], [3.0, 0.0]]
    with pytest.raises(ValueError, match="--delimiter and --decimal are both ','"):
        columns(path, decimal=",", delimiter=",")
    with pytest.raises(ValueError, match="a point or a comma, but it is 'x'"):
        columns(path, decimal="x")


@pytest.mark.parametrize(("yes", "no"), [("yes", "no"), ("Yes", "No "), ("True", "False"), ("true", "false")])
def test_yes_and_no_are_1_and_0(yes, no, tmp_path):
    path = write(tmp_path, f"time,count\n1,{yes}\n2,{no}\n3,{yes}\n")
    assert columns(path)[1] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "names", "words"),
    [
        (ROWS, ["time,count"], "no column 'time,count'.*one column at a time"),
        (ROWS, ["tiem"], "Did you mean 'time'"),
        ("1.5,3\n2.5,0\n", ["time"], "the header may be missing"),
        ("", ["time"], "is empty"),
        ("time,count\n", ["time"], "no rows of data"),
        ("time,count\n1,red\n2,blue\n", ["count"], "holds 'red' in row 1; expected numbers .or yes and no"),
        ("time,count\n1,yes\n2,perhaps\n", ["count"], "holds 'perhaps' in row 2"),
        ("time,count \n1,2\n2,3\n", ["count", "cuont"], "'time', 'count'. Did you mean 'count'"),
        ("a,a ,b\n1,2,3\n", ["a"], "2 columns named 'a'"),
        ("time,count\n1,2,3\n2\n1,2,3,4\n", ["time"], "cannot be read as CSV"),
    ],
)
def test_what_cannot_be_read(text, names, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        columns(write(tmp_path, text), *names)


def test_a_broken_archive(tmp_path):
    for name in ("data.csv.gz", "data.csv.zip"):
        with pytest.raises(ValueError, match="cannot be read as CSV"):
            columns(write(tmp_path, b"not an archive at all", name))


@pytest.mark.parametrize("name", ["a;b", "a\tb", " a ", 'say "a"', "größe, 数"])
def test_a_folder_knows_its_columns_by_any_name(name, tmp_path):
    """The columns of a table are written to data.csv, from which a fit is resumed."""
    table = tmp_path / "data.parquet"
    pd.DataFrame({name: np.arange(5.0) ** 2}).to_parquet(table)
    asked = FitSettings(inputs=(name.strip(),), likelihood="poisson", cells=(4,))
    folder = begin(Table(table), asked, tmp_path / "run", "ellipslice fit")
    assert open_folder(folder.path).data.points.tolist() == [0.0, 1.0, 4.0, 9.0, 16.0]


@pytest.mark.parametrize(
    ("given", "name"),
    [("Poisson", "poisson"), ("negative_binomial", "negative-binomial"), (" Student T", "student-t")],
)
def test_names_are_found_however_they_are_written(given, name):
    assert normalise_name(given) == name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"likelihood": "poison"}, "Did you mean 'poisson'"),
        ({"likelihood": "normal"}, "Did you mean 'gaussian'"),
        ({"likelihood": "zeta"}, "but it is 'zeta'.$"),
        ({"kernel": "rbf"}, "Did you mean 'squared-exponential'"),
        ({"kernel": "matern"}, "Did you mean 'matern"),
        ({"rhat": 0.9}, "--rhat must be finite and above 1"),
        ({"effective_sample_size": -5.0}, "--effective-sample-size must be finite and above 0"),
        ({"max_seconds": float("nan")}, "--max-seconds must be finite and above 0"),
    ],
)
def test_mistakes_in_what_is_asked(options, words):
    with pytest.raises(ValueError, match=words):
        FitSettings(inputs=("time",), target="count", **options).check()
