"""Mistakes in terms: messages state what was given, what was expected and what to do."""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import sparse
from tinygp import kernels

from catalogue_terms import DATA, EDGES, GRAPH
from ellipslice.latent.terms import AR1, BYM2, GP, ICAR, IID, RW1, RW2, Fixed, Generic, Matern, Seasonal, pc_range

HALF = {"sd": dist.HalfNormal(1.0), "length": dist.HalfNormal(1.0)}


def exponential(sd, length):
    return sd**2 * kernels.Exp(length)


SQUARE = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def on(values, **columns):
    return {"t": values, "x": np.arange(len(values)), **columns}


MISTAKES = {
    "unknown column": (
        lambda: IID("hospitl").bind({"hospital": [1]}),
        "'hospitl' is not a column of the data. Did you mean 'hospital'",
    ),
    "no data": (lambda: IID("g").bind(), "IID: column is the name 'g', but no data were given"),
    "array without a name": (lambda: IID([1, 2]).bind(), "IID was given an array without a name. Give name="),
    "a matrix as a column": (
        lambda: IID(np.eye(2), name="g").bind(),
        r"IID: column has shape \(2, 2\). Expected one value",
    ),
    "missing numbers": (
        lambda: RW1("t").bind(on([1.0, np.nan, 2.0, np.nan])),
        "RW1: column has missing values in rows 1, 3",
    ),
    "missing text": (
        lambda: IID("t").bind(on(["a", None, "b"])),
        "IID: column has missing values in row 1. Drop these",
    ),
    "missing category": (
        lambda: IID("t").bind(pd.DataFrame({"t": pd.Categorical(["a", None])})),
        "IID: column has missing values in row 1",
    ),
    "missing in pandas": (
        lambda: IID("t").bind(pd.DataFrame({"t": pd.array([1, None, 2], dtype="Int64")})),
        "IID: column has missing values in row 1",
    ),
    "missing date": (lambda: RW1("t").bind(on(pd.to_datetime(["2024-01-01", None]))), "missing values in row 1"),
    "infinite": (lambda: RW1("t").bind(on([1.0, np.inf])), "RW1: column is not finite in rows 1"),
    "several types": (lambda: IID("t").bind(on(np.array([1, "a"], dtype=object))), "values of several types"),
    "walk over text": (lambda: RW2("t").bind(on(["a", "b", "c"])), "has the values a, b, c. Expected numbers or dates"),
    "one position": (
        lambda: RW1("t").bind(on([3, 3])),
        "RW1: the column has 1 distinct value, but RW1 requires at least 2",
    ),
    "two positions": (lambda: RW2("t").bind(on([3, 4])), "has 2 distinct values, but RW2 requires at least 3"),
    "small cycle": (lambda: RW1("t", cyclic=True).bind(on([1, 2])), "a cyclic walk requires at least 3"),
    "cycle without period": (lambda: RW2("t", cyclic=True).bind(on([0, 1, 3])), "are not equally spaced. Give period="),
    "short period": (
        lambda: RW2("t", cyclic=True, period=3).bind(on([0, 1, 3])),
        "period is 3, but the positions span 3",
    ),
    "period of a line": (lambda: RW2("t", period=3).bind(on([0, 1, 3])), "period is given, but the walk is not cyclic"),
    "unknown constraint": (lambda: RW2("t", constraint="sum").bind(on([0, 1, 3])), "constraint must be one of .*'sum'"),
    "trend of RW1": (
        lambda: RW1("t", constraint="trend").bind(on([0, 1, 3])),
        "only RW2 without cyclic=True has a linear",
    ),
    "data outside values": (
        lambda: RW1("t", values=[1, 2]).bind(on([1, 2, 3])),
        "t has no level 3. Its levels are: 1, 2",
    ),
    "one time": (lambda: AR1("t").bind(on([2, 2])), "the column has 1 distinct time, but AR1 requires at least 2"),
    "irregular times": (
        lambda: AR1("t").bind(on([0.0, 1.0, 2.5])),
        "the time 2.5 is not a whole number of steps of 1 after",
    ),
    "far times": (lambda: AR1("t").bind(on([0, 1, 10**9])), "there are 1000000001 steps of 1, and at most 1000000"),
    "irregular seasons": (
        lambda: Seasonal("t").bind(on([0.0, 1.0, 2.5])),
        "Seasonal: the time 2.5 is not a whole number of steps of 1 after 0.0",
    ),
    "short seasons": (lambda: Seasonal("t").bind(on([0, 1, 5])), "there are 6 times, but the period has 12. Give"),
    "period of 1": (
        lambda: Seasonal("t", period=1).bind(on([0, 1])),
        "Seasonal: period must be at least 2, but it is 1",
    ),
    "period of a half": (lambda: Seasonal("t", period=2.5).bind(on([0, 1, 2])), "Seasonal: period must be"),
    "constraint of a season": (
        lambda: Seasonal("t", constraint="level").bind(on(range(12))),
        "Seasonal: constraint must be 'none' or 'pattern', but it is 'level'",
    ),
    "no Q": (lambda: Generic("t").bind(on([0, 1])), "Generic requires Q="),
    "Q that is not square": (lambda: Generic("t", Q=np.ones((2, 3))).bind(on([0])), r"Q has shape \(2, 3\)"),
    "Q that is not symmetric": (
        lambda: Generic("t", Q=[[1.0, 0.5], [0.0, 1.0]]).bind(on([0])),
        r"Q is not symmetric: Q\[0, 1\] is 0.5, but Q\[1, 0\] is 0",
    ),
    "Q with a negative eigenvalue": (
        lambda: Generic("t", Q=[[1.0, 2.0], [2.0, 1.0]]).bind(on([0])),
        "Q is not positive semi-definite: it has the eigenvalue -1, and the largest one is 3",
    ),
    "Q of zeros": (lambda: Generic("t", Q=np.zeros((2, 2))).bind(on([0])), "all of Q is 0"),
    "Q that is not finite": (lambda: Generic("t", Q=[[np.nan]]).bind(on([0])), "Generic: Q must be finite"),
    "sparse Q that is not finite": (
        lambda: Generic("t", Q=sparse.csr_array([[np.inf]])).bind(on([0])),
        "Q has values that are not finite",
    ),
    "labels of Q of another length": (
        lambda: Generic("t", Q=np.eye(2), labels=["a"]).bind(on(["a"])),
        "there are 1 labels for 2 rows of Q",
    ),
    "labels of Q twice": (lambda: Generic("t", Q=np.eye(2), labels=["a", "a"]).bind(on(["a"])), "has a label twice"),
    "levels that are not in Q": (
        lambda: Generic("t", Q=np.eye(2)).bind(on([1, 2])),
        "levels that are not labels of Q: 2. The labels are: 0, 1. Give labels=",
    ),
    "wrong rank of Q": (lambda: Generic("t", Q=np.eye(2), rank=1).bind(on([0])), "rank is 1, but Q has rank 2"),
    "a null space that is none": (
        lambda: Generic("t", Q=np.eye(2), null=[[1.0, 1.0]]).bind(on([0])),
        "Q times sum to zero of null is not 0",
    ),
    "a large null space": (
        lambda: Generic(
            "t", Q=sparse.eye_array(2100) + sparse.eye_array(2100, k=1) + sparse.eye_array(2100, k=-1)
        ).bind(on([0])),
        "the null space of Q with 2100 connected levels is not searched for; at most 2000",
    ),
    "constraint of Generic": (
        lambda: Generic("t", Q=np.eye(2), constraint="level").bind(on([0])),
        "Generic: constraint must be 'null' or 'none'",
    ),
    "one coordinate": (lambda: Matern("x").bind(on([0, 1])), "Matern has two coordinates, but 1 were given"),
    "three coordinates": (lambda: Matern(("t", "x", "x")).bind(on([0, 1])), "has two coordinates, but 3 were given"),
    "unknown coordinate": (
        lambda: Matern(("t", "z")).bind(on([0, 1])),
        "Matern: column 'z' is not a column of the data",
    ),
    "text as a coordinate": (lambda: Matern(("t", "x")).bind(on(["a", "b"])), "has the values a, b. Expected numbers"),
    "missing coordinate": (lambda: Matern(("t", "x")).bind(on([0.0, np.nan])), "missing values in row 1"),
    "places without a name": (lambda: Matern(np.eye(2)).bind(), "Matern was given an array without a name. Give name="),
    "places of three axes": (
        lambda: Matern(np.ones((2, 2, 2)), name="a").bind(),
        r"Matern: column has shape \(2, 2, 2\)",
    ),
    "one place": (lambda: Matern(("t", "t")).bind(on([1, 1])), "Matern: all rows have the same place"),
    "fine lattice": (
        lambda: Matern(("t", "x"), spacing=0.001).bind(on([0, 1])),
        "the lattice has 1501 x 1501 nodes, and at most 60000 are possible. Give a larger spacing=",
    ),
    "no spacing": (
        lambda: Matern(("t", "x"), spacing=0).bind(on([0, 1])),
        "Matern: spacing must be one positive number",
    ),
    "negative extension": (
        lambda: Matern(("t", "x"), extension=-1).bind(on([0, 1])),
        "extension is -1. Expected a width",
    ),
    "bounds of one axis": (lambda: Matern(("t", "x"), bounds=(0, 1)).bind(on([0, 1])), r"bounds is \(0, 1\). Expected"),
    "places outside of bounds": (
        lambda: Matern(("t", "x"), bounds=((0, 1), (0, 1))).bind(on([0, 1, 5])),
        "the places of rows 2 are outside of bounds",
    ),
    "new rows of an array": (
        lambda: Matern(np.eye(2), name="field").bind().rows({"x": [0.5], "y": [0.5]}),
        r"field was given an array of positions, so its columns in new data are unknown. .* Matern\(\('x', 'y'\)",
    ),
    "prior of an unknown hyperparameter": (
        lambda: Matern(("t", "x"), prior={"length": pc_range(1.0, 0.5)}).bind(on([0, 1])),
        "Matern has no hyperparameter 'length'. Its hyperparameters are: sd, range",
    ),
    "range of 0": (lambda: pc_range(0.0, 0.5), "pc_range: range must be one positive number"),
    "no kernel": (lambda: GP("t").bind(on([0, 1])), "GP requires kernel=, such as 'matern32', or lambda sd"),
    "a class as a kernel": (lambda: GP("t", kernel=kernels.Matern32).bind(on([0, 1])), "but it is the class Matern32"),
    "one prior of a kernel": (
        lambda: GP("t", kernel=kernels.Matern32(1.0), prior=dist.HalfNormal(1.0)).bind(on([0, 1])),
        "GP: prior must be a mapping from arguments of the kernel to distributions",
    ),
    "an argument without a prior": (
        lambda: GP("t", kernel=exponential, prior={"sd": dist.HalfNormal(1.0)}).bind(on([0, 1])),
        "the kernel has the argument 'length' without a prior. Those with a prior are: sd. Give each",
    ),
    "a prior without an argument": (
        lambda: GP("t", kernel=exponential, prior={**HALF, "nu": dist.HalfNormal(1.0)}).bind(on([0, 1])),
        "GP: prior has the name 'nu', but the kernel does not use it",
    ),
    "a number as a prior": (
        lambda: GP("t", kernel=exponential, prior={**HALF, "length": 2.0}).bind(on([0, 1])),
        "the prior of the argument length of the kernel must be a NumPyro distribution, but it is 2.0",
    ),
    "a kernel that is not positive definite": (
        lambda: GP("t", kernel=-1.0 * kernels.Exp(1.0)).bind(on([0, 1])),
        "the kernel has no positive definite covariance at the inputs for its arguments",
    ),
    "many inputs of a Gaussian process": (
        lambda: GP("t", kernel=kernels.Exp(1.0)).bind(on(np.arange(1001))),
        "there are 1001 distinct inputs, and at most 1000 are possible with this kernel",
    ),
    "an input that is new": (
        lambda: GP("t", kernel=kernels.Exp(1.0)).bind(on([0, 1])).rows({"t": [0, 2]}),
        "t has no effect at the inputs of rows 1. Use predict",
    ),
    "weights of other length": (
        lambda: IID("t", weights=[1.0], name="s").bind(on([1, 2])),
        "weights has 1 rows, but the col",
    ),
    "missing weights": (lambda: IID("t", weights="w").bind(on([1, 2], w=[1.0, np.nan])), "weights must be finite"),
    "text as a covariate": (lambda: Fixed("t").bind(on(["a", "b"])), "Fixed: column 't' has dtype"),
    "missing covariate": (lambda: Fixed("t").bind(on([1.0, np.nan])), r"'t' must be finite, but .*\[1\] is nan"),
    "column of zeros": (lambda: Fixed(["1", "t"]).bind(on([0, 0])), "the column 't' is 0 in all rows"),
    "column twice": (lambda: Fixed(["t", "t"]).bind(on([0, 1])), "the coefficient 't' is there twice"),
    "no columns": (lambda: Fixed([]).bind(on([0, 1])), "Fixed was given no column"),
    "negative sd": (
        lambda: Fixed("t", sd=-1.0).bind(on([0, 1])),
        "sd of 't' must be a positive number or 'flat', but it is -1",
    ),
    "sd of another name": (
        lambda: Fixed("t", sd={"u": 1}).bind(on([0, 1])),
        "sd has the name 'u', but the coefficients are: t",
    ),
    "too many sd": (lambda: Fixed("t", sd=[1, 2]).bind(on([0, 1])), "sd has 2 values for 1 coefficients"),
    "names of another length": (lambda: Fixed(np.eye(2), names=["a"]).bind(), "names has 1 names for 2 columns"),
    "bad unit": (lambda: IID("g").bind(DATA, unit=0.0), "unit must be one positive number"),
    "no graph": (lambda: ICAR("region").bind(DATA), "ICAR requires graph=. Give a symmetric matrix"),
    "unknown graph": (lambda: ICAR("region", graph=3).bind(DATA), "graph is of type int and cannot be read"),
    "missing regions": (
        lambda: BYM2("region", graph=EDGES[:3]).bind(DATA),
        "regions that are not in the graph: d, e. The regions of the graph are: a, b, c. Give regions=",
    ),
    "numbers from one": (
        lambda: ICAR("t", graph=SQUARE).bind(on([1, 2, 3])),
        "regions that are not in the graph: 3. The regions of the graph are: 0, 1, 2",
    ),
    "text and numbers": (
        lambda: ICAR("t", graph=SQUARE).bind(on(["0", "1"])),
        "regions that are not in the graph: 0, 1. The regions of the graph are: 0, 1, 2. The labels differ only",
    ),
    "asymmetric matrix": (
        lambda: ICAR("t", graph=np.triu(SQUARE)).bind(on([0, 1])),
        "graph is not symmetric: from 0 to 1 it has 1, but from 1 to 0 0. Use the maximum",
    ),
    "asymmetric mapping": (
        lambda: ICAR("t", graph={"a": ["b"], "b": []}).bind(on(["a", "b"])),
        "b is a neighbour of a, but a is not a neighbour of b",
    ),
    "own neighbour": (lambda: ICAR("t", graph=SQUARE + np.eye(3)).bind(on([0, 1])), "region 0 is its own neighbour"),
    "loop": (lambda: ICAR("t", graph=[("a", "a")]).bind(on(["a"])), "region a is its own neighbour"),
    "negative weights": (lambda: ICAR("t", graph=-SQUARE).bind(on([0, 1])), "weights that are negative or not finite"),
    "labels of another length": (
        lambda: ICAR("t", graph=sparse.csr_array(SQUARE), regions=[1, 2]).bind(on([1, 2])),
        r"graph has shape \(3, 3\), but there are 2 regions",
    ),
    "label twice": (lambda: ICAR("t", graph=SQUARE, regions=[1, 2, 2]).bind(on([1, 2])), "regions has a label twice"),
    "edge of another region": (
        lambda: ICAR("t", graph=[("a", "b"), ("b", "q")], regions=["a", "b"]).bind(on(["a"])),
        "graph has edges of q, which are not among its regions: a, b",
    ),
    "no edges": (
        lambda: ICAR("t", graph=[]).bind(on(["a"])),
        "graph has no edge, so its regions are unknown. Give regions=",
    ),
    "tuples as regions": (lambda: ICAR("t", graph={(0, 1): []}).bind(on(["a"])), "Expected numbers or texts as labels"),
    "constraint of ICAR": (lambda: ICAR("region", **GRAPH, constraint="sum").bind(DATA), "ICAR: constraint must be"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises((ValueError, TypeError), match=message):
        make()
