"""Formulas: parsed parts, design matrices against hand-written ones, new data, and the message of every error.

The expected coding of interactions is that of patsy 1.0.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from ellipslice.latent.formula import Design, TermRequest, parse

X = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 8.0])
Z = np.array([1.0, -1.0, 2.0, 0.0, 3.0, 2.0])
ONE = np.ones(6)
MALE = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
B, C = np.array([0.0, 0, 1, 1, 0, 0]), np.array([0.0, 0, 0, 0, 1, 1])
W = np.eye(3)
DATA = {
    "y": [1.0, 2.0, np.nan, 4.0, 5.0, 7.0],
    "x": X,
    "z": Z,
    "E": X + 1,
    "sex": np.array(["male", "female"] * 3),
    "g": list("aabbcc"),
    "h": list("uvuvuv"),
    "age": [30, 40, 50, 60, 70, 80],
    "smoker": [True, False, False, True, True, False],
    "three": np.full(6, 3.0),
    "zero": np.zeros(6),
    "one": ["q"] * 6,
    "gap": [1.0, 2.0, np.nan, 4.0, np.nan, 6.0],
    "infinite": [1.0, 2.0, 3.0, np.inf, 5.0, 6.0],
    "text_gap": ["a", None, "b", "a", "b", "a"],
    "net income": X**2,
}


def design(formula, data=None, **options) -> Design:
    return parse(formula).design(DATA if data is None else data, **options)


def check(formula, names, columns, data=None):
    found = design(formula, data)
    assert found.names == names
    np.testing.assert_allclose(found.matrix, np.stack(columns, axis=1), rtol=1e-15)


# --- design matrices --------------------------------------------------------------------------------------------------

CENTRED = X - 19 / 6
SPREAD = np.sqrt(np.sum(CENTRED**2) / 5)

MATRICES = {
    "y ~ 1": (("Intercept",), [ONE]),
    "y ~ x": (("Intercept", "x"), [ONE, X]),
    "y ~ 1 + x": (("Intercept", "x"), [ONE, X]),
    "y ~ 0 + x": (("x",), [X]),
    "y ~ x - 1": (("x",), [X]),
    "y ~ -1 + x": (("x",), [X]),
    "y ~ x + -1": (("x",), [X]),
    "y ~ x - -z": (("Intercept", "x", "z"), [ONE, X, Z]),
    "y ~ log(E)": (("Intercept", "log(E)"), [ONE, np.log(X + 1)]),
    "y ~ exp(z) + abs(z)": (("Intercept", "exp(z)", "abs(z)"), [ONE, np.exp(Z), np.abs(Z)]),
    "y ~ sqrt(x)": (("Intercept", "sqrt(x)"), [ONE, np.sqrt(X)]),
    "y ~ I(x**2 / 2 - x)": (("Intercept", "I(x ** 2 / 2 - x)"), [ONE, X**2 / 2 - X]),
    "y ~ center(x)": (("Intercept", "center(x)"), [ONE, CENTRED]),
    "y ~ scale(x)": (("Intercept", "scale(x)"), [ONE, CENTRED / SPREAD]),
    "y ~ I(center(x)**2)": (("Intercept", "I(center(x) ** 2)"), [ONE, CENTRED**2]),
    "y ~ `net income`": (("Intercept", "net income"), [ONE, X**2]),
    "y ~ log(`net income` + 1)": (("Intercept", "log(net income + 1)"), [ONE, np.log(X**2 + 1)]),
    "y ~ sex": (("Intercept", "sex[male]"), [ONE, MALE]),
    "y ~ 0 + sex": (("sex[female]", "sex[male]"), [1 - MALE, MALE]),
    "y ~ g": (("Intercept", "g[b]", "g[c]"), [ONE, B, C]),
    "y ~ smoker": (("Intercept", "smoker[True]"), [ONE, [1, 0, 0, 1, 1, 0]]),
    "y ~ I(smoker * x)": (("Intercept", "I(smoker * x)"), [ONE, [0, 0, 0, 3, 5, 0]]),
    "y ~ C(E)": (("Intercept", *(f"E[{n}]" for n in (2, 3, 4, 6, 9))), [ONE, *np.eye(6)[1:]]),
    "y ~ x:z": (("Intercept", "x:z"), [ONE, X * Z]),
    "y ~ x*z": (("Intercept", "x", "z", "x:z"), [ONE, X, Z, X * Z]),
    "y ~ x*sex": (("Intercept", "x", "sex[male]", "x:sex[male]"), [ONE, X, MALE, X * MALE]),
    "y ~ x:sex": (("Intercept", "x:sex[female]", "x:sex[male]"), [ONE, X * (1 - MALE), X * MALE]),
    "y ~ sex:x + x": (("Intercept", "x", "sex[male]:x"), [ONE, X, X * MALE]),
    "y ~ I(x**2):sex": (
        ("Intercept", "I(x ** 2):sex[female]", "I(x ** 2):sex[male]"),
        [ONE, X**2 * (1 - MALE), X**2 * MALE],
    ),
    "y ~ (x + z):sex": (
        ("Intercept", "x:sex[female]", "x:sex[male]", "z:sex[female]", "z:sex[male]"),
        [ONE, X * (1 - MALE), X * MALE, Z * (1 - MALE), Z * MALE],
    ),
    "y ~ (x + z)*sex - z:sex": (
        ("Intercept", "x", "z", "sex[male]", "x:sex[male]"),
        [ONE, X, Z, MALE, X * MALE],
    ),
    "y ~ sex*g": (
        ("Intercept", "sex[male]", "g[b]", "g[c]", "sex[male]:g[b]", "sex[male]:g[c]"),
        [ONE, MALE, B, C, MALE * B, MALE * C],
    ),
    "y ~ 0 + sex:g": (
        (
            "sex[female]:g[a]",
            "sex[male]:g[a]",
            "sex[female]:g[b]",
            "sex[male]:g[b]",
            "sex[female]:g[c]",
            "sex[male]:g[c]",
        ),
        [(male == MALE) * group for group in (1 - B - C, B, C) for male in (0, 1)],
    ),
    "y ~ sex:g": (
        ("Intercept", "g[b]", "g[c]", "sex[male]:g[a]", "sex[male]:g[b]", "sex[male]:g[c]"),
        [ONE, B, C, MALE * (1 - B - C), MALE * B, MALE * C],
    ),
    "y ~ g:sex - 1 + g": (
        ("g[a]", "g[b]", "g[c]", "g[a]:sex[male]", "g[b]:sex[male]", "g[c]:sex[male]"),
        [1 - B - C, B, C, (1 - B - C) * MALE, B * MALE, C * MALE],
    ),
    "y ~ x:z:sex": (
        ("Intercept", "x:z:sex[female]", "x:z:sex[male]"),
        [ONE, X * Z * (1 - MALE), X * Z * MALE],
    ),
}


@pytest.mark.parametrize("formula", MATRICES)
def test_design_matrix(formula):
    check(formula, *MATRICES[formula])


def test_columns_of_expanded_products_occur_once():
    assert design("y ~ x*sex + x*z").names == ("Intercept", "x", "sex[male]", "z", "x:sex[male]", "x:z")
    assert design("y ~ x + x*z").names == ("Intercept", "x", "z", "x:z")
    assert design("y ~ x:z*sex").names == ("Intercept", "sex[male]", "x:z", "x:z:sex[male]")


def test_factor_is_the_same_as_c():
    np.testing.assert_array_equal(design("y ~ factor(E)").matrix, design("y ~ C(E)").matrix)
    assert design("y ~ factor(sex)").names == ("Intercept", "sex[male]")


def test_a_data_frame_gives_the_same_design_as_a_mapping():
    frame = pd.DataFrame(DATA, index=[f"row {i}" for i in range(6)])
    for formula in MATRICES:
        found, expected = design(formula, frame), design(formula)
        assert found.names == expected.names
        np.testing.assert_array_equal(found.matrix, expected.matrix)
    assert list(found.index) == list(frame.index)
    assert expected.index is None


def test_categories_of_pandas_keep_their_order():
    frame = pd.DataFrame({"y": X, "level": pd.Categorical(list("LHLHLH"), categories=["unused", "L", "H"])})
    check("y ~ level", ("Intercept", "level[H]"), [ONE, 1 - MALE], frame)
    frame["level"] = frame.level.cat.reorder_categories(["H", "L", "unused"])
    check("y ~ level", ("Intercept", "level[L]"), [ONE, MALE], frame)


@pytest.mark.parametrize("dtype", ["string", "category", object])
def test_types_of_text(dtype):
    frame = pd.DataFrame({"y": X, "sex": pd.Series(DATA["sex"]).astype(dtype)})
    check("y ~ sex", ("Intercept", "sex[male]"), [ONE, MALE], frame)


@pytest.mark.parametrize("dtype", ["int8", "Int64", "Float64", "float32", object])
def test_types_of_numbers(dtype):
    check("y ~ x", ("Intercept", "x"), [ONE, X], pd.DataFrame({"y": Z, "x": pd.Series(X).astype(dtype)}))


def test_nullable_booleans():
    frame = pd.DataFrame({"y": Z, "smoker": pd.Series(DATA["smoker"], dtype="boolean")})
    check("y ~ smoker", *MATRICES["y ~ smoker"], frame)


# --- response and offset ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "y",
    [
        DATA["y"],
        [1, 2, None, 4, 5, 7],
        np.ma.masked_equal([1, 2, -1, 4, 5, 7], -1),
        pd.Series([1, 2, None, 4, 5, 7], dtype="Int64"),
        pd.Series([1, 2, None, 4, 5, 7]),
    ],
    ids=["nan", "none", "masked", "nullable", "series"],
)
def test_a_response_may_be_missing(y):
    found = design("log(y) ~ x", {"y": y, "x": X})
    assert found.response_name == "log(y)"
    np.testing.assert_array_equal(found.response, np.log([1, 2, np.nan, 4, 5, 7]))


def test_a_response_of_booleans_and_of_several_columns():
    np.testing.assert_array_equal(design("smoker ~ x").response, [1, 0, 0, 1, 1, 0])
    found = design("I(y / E) ~ log(E)")
    np.testing.assert_array_equal(found.response, np.array(DATA["y"]) / (X + 1))


def test_offsets_are_added():
    np.testing.assert_array_equal(design("y ~ x").offset, np.zeros(6))
    np.testing.assert_allclose(design("y ~ x + offset(log(E)) + offset(2 * z)").offset, np.log(X + 1) + 2 * Z)
    np.testing.assert_array_equal(design("y ~ x + offset(0.5)").offset, np.full(6, 0.5))


# --- structured terms -------------------------------------------------------------------------------------------------

TERMS = {
    "rw2(age)": [("rw2", ("age",), None, {}, "age")],
    "rw2(age, cyclic=True, name='season')": [("rw2", ("age",), None, {"cyclic": True}, "season")],
    "bym2(g, graph=W)": [("bym2", ("g",), None, {"graph": W}, "g")],
    "rw1(log(E))": [("rw1", ("log(E)",), None, {}, "log_E")],
    "iid(g, prior=pc_prior(1, probability=-0.01 + 2/100))": [("iid", ("g",), None, {"prior": (1, 0.01)}, "g")],
    "ar1(age, at=[1, (2, 'a)')], map={'a': None})": [
        ("ar1", ("age",), None, {"at": [1, (2, "a)")], "map": {"a": None}}, "age")
    ],
    "(1 | g)": [("iid", ("g",), None, {}, "g")],
    "(1 | C(g))": [("iid", ("g",), None, {}, "g")],
    "(1 || g)": [("iid", ("g",), None, {}, "g")],
    "(x || g)": [("iid", ("g",), None, {}, "g"), ("iid", ("g",), "x", {}, "g_x")],
    "(1 + x + log(E) || g)": [
        ("iid", ("g",), None, {}, "g"),
        ("iid", ("g",), "x", {}, "g_x"),
        ("iid", ("g",), "log(E)", {}, "g_log_E"),
    ],
    "(0 + x | g)": [("iid", ("g",), "x", {}, "g_x")],
    "(x - 1 | g)": [("iid", ("g",), "x", {}, "g_x")],
    "iid(g, weights=x)": [("iid", ("g",), "x", {}, "g_x")],
    "(1 | g:h)": [("iid", ("g:h",), None, {}, "g_h")],
    "iid(g:h)": [("iid", ("g:h",), None, {}, "g_h")],
    "(1 | g/h)": [("iid", ("g",), None, {}, "g"), ("iid", ("g:h",), None, {}, "g_h")],
    "(0 + x | g/h)": [("iid", ("g",), "x", {}, "g_x"), ("iid", ("g:h",), "x", {}, "g_h_x")],
    "rw2(age) + iid(age)": [("rw2", ("age",), None, {}, "age_rw2"), ("iid", ("age",), None, {}, "age_iid")],
    "rw2(age) + iid(g, name='age')": [("rw2", ("age",), None, {}, "age_rw2"), ("iid", ("g",), None, {}, "age")],
}


@pytest.mark.parametrize("text", TERMS)
def test_requests_for_terms(text):
    found = design(
        f"y ~ {text}", names={"W": W}, functions={"pc_prior": lambda sd, probability: (sd, pytest.approx(probability))}
    )
    assert found.terms == tuple(TermRequest(*each) for each in TERMS[text])
    assert found.names == ("Intercept",)
    for term in found.terms:
        assert {*term.columns, *([term.weights] if term.weights else [])} <= set(found.columns)


def test_columns_of_terms():
    categorical = pd.Categorical(list("LHLHLH"), categories=["L", "H"])
    frame = pd.DataFrame({**DATA, "level": categorical})
    columns = design("y ~ iid(level) + rw1(log(E)) + (0 + sqrt(x) | g:E)", frame).columns
    assert list(columns) == ["level", "log(E)", "g:E", "sqrt(x)"]
    assert list(columns["level"].cat.categories) == ["L", "H"]
    np.testing.assert_array_equal(columns["log(E)"], np.log(X + 1))
    np.testing.assert_array_equal(columns["sqrt(x)"], np.sqrt(X))
    assert list(columns["g:E"]) == ["a:1", "a:2", "b:3", "b:4", "c:6", "c:9"]


def test_terms_that_are_registered_later():
    formula = parse("y ~ seasonal(x, period=12) + (1 | g)", terms=("seasonal",))
    assert formula.design(DATA).terms[0] == TermRequest("seasonal", ("x",), None, {"period": 12}, "x")


# --- new data ---------------------------------------------------------------------------------------------------------


def test_new_data_have_the_levels_means_and_scales_of_the_fit():
    fitted = design("log(E) ~ scale(x) + center(log(`net income` + 1)) + g + offset(z) + iid(h)")
    new = {"x": [10.0, 20.0], "net income": [0.0, 4.0], "g": ["c", "a"], "z": [1.0, 2.0], "h": ["w", "u"]}
    found = fitted.at(new)
    mean = np.mean(np.log(X**2 + 1))
    assert found.names == fitted.names == ("Intercept", "scale(x)", "center(log(net income + 1))", "g[b]", "g[c]")
    expected = [[1, (10 - 19 / 6) / SPREAD, -mean, 0, 1], [1, (20 - 19 / 6) / SPREAD, np.log(5) - mean, 0, 0]]
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-14)
    np.testing.assert_array_equal(found.offset, [1.0, 2.0])
    assert found.response is None
    assert found.columns["h"] == ["w", "u"]  # a term decides about its new levels
    assert found.terms == fitted.terms


def test_new_data_have_the_levels_of_a_numeric_column():
    fitted = design("y ~ 0 + C(code):x", {"y": X, "x": X, "code": [1, 2, 1, 2.5, 2, 1]})
    assert fitted.names == ("code[1]:x", "code[2]:x", "code[2.5]:x")
    found = fitted.at(pd.DataFrame({"x": [3, 4], "code": [2, 1], "y": [0, np.nan]}))
    np.testing.assert_array_equal(found.matrix, [[0, 3, 0], [4, 0, 0]])
    np.testing.assert_array_equal(found.response, [0, np.nan])
    assert np.isnan(fitted.at({"x": [3], "code": [2], "y": [None]}).response).all()


@pytest.mark.parametrize("formula", MATRICES)
def test_the_same_data_give_the_same_design_again(formula):
    fitted = pickle.loads(pickle.dumps(design(formula)))
    again = fitted.at(DATA)
    np.testing.assert_array_equal(again.matrix, fitted.matrix)
    np.testing.assert_array_equal(again.response, fitted.response)
    one_by_one = [fitted.at({name: values[i : i + 1] for name, values in DATA.items()}).matrix for i in (3, 1)]
    np.testing.assert_array_equal(np.concatenate(one_by_one), fitted.matrix[[3, 1]])


def test_new_data_without_predictors():
    assert design("y ~ 1").at({"other": [1, 2, 3]}).matrix.shape == (3, 1)
    assert design("y ~ 1").at(pd.DataFrame(index=range(4))).matrix.shape == (4, 1)


def test_unseen_level():
    message = (
        r"column 'g' has the level 'd' in rows 1, 2 \(counted from 0\), which is not in the data of the fit. "
        r"Known levels: 'a', 'b', 'c'. Remove these rows"
    )
    with pytest.raises(ValueError, match=message):
        design("y ~ g").at({"g": ["a", "d", "d"]})
    with pytest.raises(ValueError, match=r"level 7.0 in row 0 .* Known levels: 1.0, 2.0"):
        design("y ~ C(E)").at({"E": [7]})


def test_new_data_are_checked():
    fitted = design("y ~ x + g")
    with pytest.raises(ValueError, match="no column 'g' in data"):
        fitted.at({"x": [1.0]})
    with pytest.raises(ValueError, match="'x', a predictor, has missing values in row 0"):
        fitted.at({"x": [np.nan], "g": ["a"]})
    with pytest.raises(TypeError, match="'x', in x, has values that are not numbers, for example 'b'"):
        fitted.at({"x": ["b"], "g": ["a"]})


# --- syntax errors ----------------------------------------------------------------------------------------------------

SYNTAX = {
    "": "the formula is empty. Expected a response, ~ and predictors, for example",
    "   ": "the formula is empty",
    "y": "the formula 'y' has no ~. Expected one ~ between the response and the predictors",
    "y x": "has no ~",
    "y = x": "has no ~. Write ~ instead of =. Expected",
    "y ~ x ~ z": "has ~ 2 times. Expected one",
    "~ x": "has no response before ~",
    "y ~": "has nothing after ~. Write y ~ 1 for an intercept only",
    "y ~ 0": "has nothing to estimate. Add an intercept, 1",
    "1 ~ x": "the response '1' has no column",
    "cbind(y, n) ~ x": "cbind(...) is not supported. Give the successes as the response",
    "y ~ (x": "not balanced: the '(' at position 5 is not closed, in '(x'. Add ')'",
    "y ~ x)": "not balanced: the ')' at position 6 closes nothing, after 'y ~ x'",
    "y ~ I(x]": "not balanced: the ']'",
    "y ~ rw2(age, name='a": 'has "\'" at position 19, which is not closed. Add the closing quotation mark',
    "y ~ x $ z": "has '$' at position 7, which has no meaning there",
    "y ~ x z": "expected + or another operator between 'x' and 'z'",
    "y ~ (x z)": "expected + or another operator before 'z'",
    "y ~ x +": "ends after '+'. Expected a predictor",
    "y ~ x, z": "between 'x' and ','",
    "y ~ 'x'": "unexpected \"'x'\" in",
    "y ~ .": "'.' (all other columns) is not supported. Name the columns",
    "y ~ x^2": "x^2 is not supported outside of I(...). Write I(x**2).",
    "y ~ log(x)**3": "log(x)**3 is not supported outside of I(...). Write I(log(x)**3).",
    "y ~ (x + z)^2": "Write the interactions: a * b for a + b + a:b",
    "y ~ I(x^2)": "cannot read 'I(x^2)' in the formula. Write powers with **: I(x**2).",
    "y ~ x/2": "'x/2' is not supported. Write I(x/2) for a quotient, or a + a:b",
    "y ~ 2*x": "the number 2 is not a predictor in 'y ~ 2*x'. Expected 1 (an intercept) or 0 (none). Write",
    "y ~ 1*x": "'1' cannot be part of the interaction '1*x'",
    "y ~ x + x": "'x' is in the formula twice",
    "y ~ x:z + z:x": "'z:x' is in the formula twice",
    "y ~ 1 + x + 1": "'1' is in the formula twice",
    "y ~ rw2(age) + rw2( age )": "'rw2( age )' is in the formula twice",
    "y ~ (1 | g) + x + (1|g)": "'(1|g)' is in the formula twice",
    "y ~ offset(x) + offset(x)": "'offset(x)' is in the formula twice",
    "y ~ x:x": "'x:x' is an interaction of x with itself. Write I(x**2)",
    "y ~ x - z": "'- z' removes a predictor that is not in the formula before it",
    "y ~ 1 + x - 1": "has an intercept, 1, and removes it",
    "y ~ x + y": "'y' is the response and also a predictor",
    "log(y) ~ rw1(y)": "'y' is the response and also a predictor",
    "y ~ foo(x)": "there is no function 'foo' in formulas. Known functions and terms: log, exp, sqrt, abs, scale, "
    "center, I, C, factor, offset, iid, rw1, rw2, ar1, ",
    "y ~ log(foo(x))": "there is no function 'foo'",
    "y ~ RW2(age)": "Did you mean rw2(age)?",
    "y ~ besag(g, graph=W)": "Did you mean icar(g)?",
    "y ~ standardize(x)": "Did you mean scale(x)?",
    "y ~ s(age)": "there is no function 's' in formulas. Write rw2(age), a smooth function of age",
    "y ~ bs(age, df=5)": "Write rw2(age)",
    "y ~ poly(x, 2)": "Write x + I(x**2) for a polynomial",
    'y ~ f(age, model="rw2")': "there is no function 'f' in formulas. Write rw2(age).",
    'y ~ f(g, model="besag", graph=W, scale.model=TRUE)': "Write icar(g).",
    'y ~ f(inla.group(age), model="rw1")': "Write rw1(age).",
    "y ~ Q('net income')": "Write column names with unusual characters in backticks",
    "y ~ np.log(x)": "np.log(...) is not supported: functions in formulas have names without dots, such as log(...)",
    "y ~ as.factor(g)": "such as C(...)",
    "y ~ net.income": "Write a column name with unusual characters in backticks: `net.income`.",
    "y ~ log(net.income)": "Write a column name with unusual characters in backticks: `net.income`.",
    "y ~ I(x > 2)": "cannot read 'I(x > 2)' in the formula. Expected columns, numbers, + - * / ** and functions",
    "y ~ I(x[0])": "cannot read 'I(x[0])'",
    "y ~ I('a')": "cannot read",
    "y ~ I(True * x)": "cannot read",
    "y ~ log()": "log has one argument, a column or an expression, but the formula has 'log()'",
    "y ~ scale(x, center=0)": "scale has one argument",
    "y ~ I(C(g))": "C(g) in 'I(C(g))' gives levels, not numbers",
    "y ~ C(x + z)": "C requires the name of a column",
    "y ~ offset()": "offset has one argument",
    "y ~ offset(x, z)": "offset has one argument, a column or an expression, but it is 'offset(x, z)'",
    "y ~ (1 + x | g)": "(1 + x | g) has correlated effects, which are not supported. Write (1 + x || g) for",
    "y ~ (x | g)": "Write (x || g) for independent effects",
    "y ~ (0 + x + z | g:h)": "Write (0 + x + z || g:h) for independent effects",
    "y ~ (0 | g)": "(0 | g) has no effect",
    "y ~ 1 | g": "write a group-level effect in parentheses: (1 | group)",
    "y ~ (1 | g + h)": "has '+' between groups. Write (1 | g) + (1 | h).",
    "y ~ (1 | g * h)": "Write (1 | g) + (1 | h) + (1 | g:h).",
    "y ~ (1 | )": "has '' as a group",
    "y ~ (1 | log(g))": "has 'log(g)' as a group. Expected a column, g:h or g/h",
    "y ~ (x:z || g)": "has the interaction x:z as a slope. Write the product as I(x * z)",
    "y ~ (rw2(age) | g)": "rw2(age) cannot be a group-level effect",
    "y ~ rw2(age):sex": "'rw2(age)' cannot be part of the interaction 'rw2(age):sex'",
    "y ~ rw2()": "rw2() has an argument that is not a column",
    "y ~ rw2(3)": "rw2(3) has an argument that is not a column",
    "y ~ rw2(age, True)": "cannot read 'True'",
    "y ~ rw2(age,)": "rw2(age,) has an empty argument",
    "y ~ rw2(age, k=1, k=2)": "has the argument k twice",
    "y ~ rw2(age, scale.model=True)": "Write the argument scale.model with underscores: scale_model.",
    "y ~ rw2(age, prior=dist.HalfNormal(1))": "'dist.HalfNormal(1)' in rw2(age, prior=dist.HalfNormal(1)) is not",
    "y ~ rw2(age, prior=(lambda: 1)())": "is not evaluated",
    "y ~ rw2(age, prior=[i for i in x])": "is not evaluated",
    "y ~ x + __import__('os').getcwd()": "there is no function '__import__'",
    f"y ~ {'(' * 5000}x{')' * 5000}": "the formula has too many nested parentheses",
}


@pytest.mark.parametrize("formula", SYNTAX, ids=lambda formula: formula[:40])
def test_syntax_errors(formula):
    with pytest.raises(ValueError, match=r".") as caught:
        parse(formula)
    assert SYNTAX[formula] in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_formula_must_be_text():
    with pytest.raises(TypeError, match="a formula must be a string"):
        parse(["y", "x"])  # pyright: ignore[reportArgumentType]


# --- errors with data -------------------------------------------------------------------------------------------------

WITH_DATA = {
    "y ~ Age": "there is no column 'Age' in data. Did you mean 'age'? The columns are: y, x, z, E,",
    "y ~ rw2(agee)": "there is no column 'agee' in data. Did you mean 'age'?",
    "yy ~ x": "there is no column 'yy' in data. Did you mean 'y'?",
    "y ~ bym2(g, W)": "there is no column 'W' in data. The columns are: y, x, z, E, sex, g, h, age, smoker, three, "
    "zero, one and 4 more. Write a variable with its keyword: graph=W.",
    "y ~ gap": "column 'gap', a predictor, has missing values in rows 2, 4 (counted from 0). Remove these rows or",
    "y ~ rw1(gap)": "column 'gap', a predictor, has missing values in rows 2, 4",
    "y ~ text_gap": "column 'text_gap', a predictor, has missing values in row 1 (counted from 0)",
    "y ~ (1 | text_gap)": "column 'text_gap', a predictor, has missing values in row 1",
    "y ~ offset(gap)": "has missing values in rows 2, 4",
    "y ~ infinite": "column 'infinite', a predictor, has infinite values in row 3",
    "infinite ~ x": "the response 'infinite' is infinite in row 3 (counted from 0). Write NaN for a missing response",
    "log(x) ~ z": "log(x) is -inf in row 0 (counted from 0). Expected finite numbers. A logarithm requires values",
    "y ~ sqrt(z)": "sqrt(z) is nan in row 1",
    "y ~ I(1 / x)": "I(1 / x) is inf in row 0",
    "y ~ scale(three)": "scale(three) divides by the standard deviation, which is 0: all values are 3",
    "y ~ one": "the categorical column 'one' has one level, 'q'. Expected at least two",
    "y ~ x:one": "the categorical column 'one' has one level",
    "y ~ x + C(three)": "the categorical column 'three' has one level, 3.0",
    "y ~ sex + C(sex)": "'C(sex)' adds nothing: the formula has the same predictor already",
    "y ~ three": "'three' is constant, 3 in every row, and the formula has an intercept. Remove 'three', or",
    "y ~ zero": "the column 'zero' of the design matrix is 0 in every row",
    "y ~ x + z + I(x - 2*z)": "the fixed effects are collinear: I(x - 2 * z) = 1 * x - 2 * z in every row. Remove one",
    "y ~ x + E": "the fixed effects are collinear: E = 1 * Intercept + 1 * x in every row",
    "y ~ h + sex": "the fixed effects are collinear: sex[male] = 1 * Intercept - 1 * h[v] in every row",
    "y ~ C(x) + z": "collinear: z is a combination of Intercept, x[1], x[2], x[3], x[5] and 1 more. Remove one",
    "y ~ rw2(age) + rw2(age, cyclic=True)": "rw2(age) and rw2(age, cyclic=True) both have the name 'age_rw2'. Give one",
    "y ~ iid(g, name='a') + iid(h, name='a')": "both have the name 'a'",
    "y ~ bym2(g, graph=WW)": "bym2(g, graph=WW): there is no variable 'WW'. Did you mean W? Define WW before",
    "y ~ rw2(age, cyclic=TRUE)": "there is no variable 'TRUE'. Did you mean True?",
    "y ~ rw2(age, prior=exp(1))": "rw2(age, prior=exp(1)): exp(...) cannot be called in a formula. Functions that can "
    "be called in arguments: pc_prior. Assign the result to a variable first",
}
TYPES = {
    "sex ~ x": "column 'sex', in the response, has values that are not numbers, for example 'male'. Expected numbers.",
    "y ~ log(sex)": "column 'sex', in log(sex), has values that are not numbers, for example 'male'",
    "y ~ offset(g)": "column 'g', in g, has values that are not numbers",
    "y ~ (sex || g)": "has the slope of a categorical column, 'sex'. Expected numbers. Write (1 | g:sex)",
    "y ~ rw2(age, name=3)": "name must be a string that is not empty, but it is 3",
    "y ~ rw2(age, name='')": "name must be a string that is not empty, but it is ''",
}


@pytest.mark.parametrize("formula", [*WITH_DATA, *TYPES])
def test_errors_with_data(formula):
    kind, expected = (TypeError, TYPES[formula]) if formula in TYPES else (ValueError, WITH_DATA[formula])
    with pytest.raises(kind, match=r".") as caught:
        design(formula, names={"W": W}, functions={"pc_prior": tuple})
    assert expected in str(caught.value)


BAD_DATA = {
    "array": (np.ones((3, 2)), TypeError, "data must be a DataFrame or a mapping .* but it is a ndarray"),
    "none": (None, TypeError, "but it is a NoneType"),
    "lengths": ({"y": [1, 2], "x": [1, 2, 3]}, ValueError, "different numbers of rows: y has 2, x has 3"),
    "matrix": ({"y": [1, 2], "x": np.ones((2, 2))}, ValueError, r"column 'x' has shape \(2, 2\). Expected one value"),
    "number": ({"y": [1], "x": 3.0}, ValueError, r"column 'x' has shape \(\)"),
    "empty": ({"y": [], "x": []}, ValueError, "data has no rows"),
    "nothing": ({}, ValueError, "data has no rows"),
    "other": ({"a": [1]}, ValueError, "there is no column 'y' in data"),
    "twice": (pd.DataFrame(np.ones((3, 3)), columns=["y", "x", "x"]), ValueError, "2 columns with the name 'x'"),
    "missing": ({"y": [np.nan, None], "x": [1, 2]}, ValueError, "the response 'y' is missing in all rows"),
    "dates": (
        pd.DataFrame({"y": [1, 2], "x": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
        TypeError,
        "column 'x' has dtype datetime64.*Convert it to numbers, for example days",
    ),
    "complex": ({"y": [1, 2], "x": [1j, 2]}, TypeError, "column 'x' has dtype complex128"),
    "mixed": ({"y": [1, 2], "x": np.array([1, "a"], dtype=object)}, TypeError, "has text such as 'a' and other values"),
    "booleans": ({"y": [1, 2], "x": np.array([True, "a"], dtype=object)}, TypeError, "has text and booleans"),
    "lists": ({"y": [1, 2], "x": pd.Series([[1], [2, 3]])}, TypeError, "column 'x' has lists or arrays as values"),
    "objects": ({"y": [1, 2], "x": np.array([object(), 1])}, TypeError, "neither numbers nor text"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data(name):
    data, kind, message = BAD_DATA[name]
    with pytest.raises(kind, match=message):
        parse("y ~ x").design(data)


def test_other_columns_of_a_mapping_may_have_any_length():
    assert design("y ~ x", {**DATA, "graph": np.eye(3)}).matrix.shape == (6, 2)


def test_representations():
    fitted = design("y ~ x + rw2(age)")
    assert repr(fitted.formula) == "Formula('y ~ x + rw2(age)')"
    assert repr(fitted) == "Design(y, 6 rows, coefficients: Intercept, x, terms: age (rw2))"
    assert parse("y ~ x") == parse("y ~ x") != parse("y ~ z")
