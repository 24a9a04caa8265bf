"""Messages about syntax and functions of other packages, with the equivalent in formulas of this package."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

SMOOTH = ("s", "te", "ti", "t2", "bs", "ns", "cr", "cc", "cs", "spline", "smooth", "lo", "loess")
"""Names of smooth functions in R's mgcv and splines, and in patsy."""
EQUIVALENT = {
    **dict.fromkeys(("standardize", "standardise", "zscore", "std"), "scale"),
    **dict.fromkeys(("centre", "demean"), "center"),
    **dict.fromkeys(("as_factor", "category", "categorical"), "C"),
    **dict.fromkeys(("ln",), "log"),
    **dict.fromkeys(("besag", "car"), "icar"),
    **dict.fromkeys(("ar",), "ar1"),
    **dict.fromkeys(("rw",), "rw2"),
    **dict.fromkeys(("re", "ranef", "random"), "iid"),
    **dict.fromkeys(("identity",), "I"),
}
"""Names of functions in other packages, and the names here."""


def unknown_function(name: str, written: str, known: Sequence[str]) -> str:
    """Return the message about a function that formulas do not have.

    Parameters
    ----------
    name : str
        Name of the function.
    written : str
        The call or expression in the formula.
    known : sequence of str
        Functions and structured terms that formulas have.
    """
    listed = f"Known functions and terms: {', '.join(known)}."
    # The first name in the call that is neither a function nor a keyword.
    inside = re.search(rf"\b{re.escape(name)}\s*\(.*?(`[^`]+`|\b[^\W\d]\w*\b(?!\s*[.(=]))", written)
    column = inside[1] if inside else "x"
    if name in SMOOTH:
        return (
            f"there is no function {name!r} in formulas. Write rw2({column}), a smooth function of {column}. {listed}"
        )
    if name == "poly":
        return f"there is no function 'poly' in formulas. Write {column} + I({column}**2) for a polynomial. {listed}"
    if name == "f":
        return f"there is no function 'f' in formulas. Write {_inla_term(written, known)}({column}). {listed}"
    if name == "cbind":
        return "cbind(...) is not supported. Give the successes as the response, and the numbers of trials as trials=."
    if name == "Q":
        return "Q(...) is not supported. Write column names with unusual characters in backticks: `net income`."
    lower = name.lower()
    meant = EQUIVALENT.get(lower) or (lower if lower in known else None)
    similar = [meant] if meant else difflib.get_close_matches(lower, known, n=1)
    suggestion = f" Did you mean {similar[0]}({column})?" if similar else ""
    return f"there is no function {name!r} in formulas.{suggestion} {listed} Or compute a new column first."


def dotted(name: str, is_call: bool) -> str:
    """Return the message about a name with dots: `np.log(x)` or `net.income`."""
    if is_call:
        plain = EQUIVALENT.get(name.replace(".", "_").lower(), name.rpartition(".")[2])
        return f"{name}(...) is not supported: functions in formulas have names without dots, such as {plain}(...)."
    return f"{name!r} has a dot. Write a column name with unusual characters in backticks: `{name}`."


def unreadable(written: str) -> str:
    """Return the message about an expression that cannot be read."""
    start = f"cannot read {written!r} in the formula."
    if "^" in written:
        return f"{start} Write powers with **: {written.replace('^', '**')}."
    keyword = re.search(r"(\w+(?:\.\w+)+)\s*=", written)
    if keyword:
        return f"{start} Write the argument {keyword[1]} with underscores: {keyword[1].replace('.', '_')}."
    attribute = re.search(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+", written)
    if attribute:
        return f"{start} {dotted(attribute[0], written[attribute.end() :].lstrip().startswith('('))}"
    return (
        f"{start} Expected columns, numbers, + - * / ** and functions of columns. Compute anything else as a new "
        "column. Write column names with unusual characters in backticks: `net income`."
    )


def power(base: str, sign: str, exponent: str) -> str:
    """Return the message about `x^2`, `x**2` or `(a + b)^2` outside of `I(...)`."""
    if base.startswith("("):
        return f"{base}{sign}{exponent} is not supported. Write the interactions: a * b for a + b + a:b."
    return f"{base}{sign}{exponent} is not supported outside of I(...). Write I({base}**{exponent})."


def _inla_term(written: str, known: Sequence[str]) -> str:
    """Return the structured term that R-INLA's `f(x, model="...")` means; "rw2" if it is not known."""
    match = re.search(r"model\s*=\s*[\"']?(\w+)", written)
    model = match[1].lower() if match else "rw2"
    model = EQUIVALENT.get(model, model)
    return model if model in known else "rw2"
