"""What torch's guards say of symbolic sizes: quotients that are whole, symbols of which one value is left, multiples, least sizes."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, lcm
from typing import Any
from weakref import WeakKeyDictionary

QUOTIENTS = ("FloorDiv", "CleanDiv", "Mod", "PythonMod")
LOOKED = 64  # sizes from the least on: windows are seldom wider
PERIOD = 256  # of the numbers that are tried for what all of a guard's are multiples of


def multiple_of(symbol: Any, env: Any) -> int:
    """The number that a symbol is a multiple of by torch's guards: 4 where n elements became n//4 rows of 4, 8 where an image was halved
    three times and its halves doubled were joined with it. 1 where they say nothing."""
    read, found = _MULTIPLES.get(env, (-1, {}))
    if read != len(env.guards):
        _MULTIPLES[env] = len(env.guards), (found := _multiples([g.expr for g in env.guards], env))
    return found.get(symbol, 1)


_MULTIPLES: WeakKeyDictionary[Any, tuple[int, dict[Any, int]]] = WeakKeyDictionary()  # how many guards were read, and what they say


def _multiples(guards: list[Any], env: Any) -> dict[Any, int]:
    """Of equations of one symbol and its quotients by numbers: the greatest divisor of what meets all of a symbol's."""
    from sympy import Eq, Integer

    known = {g.lhs: g.rhs for g in guards if isinstance(g, Eq) and g.rhs.is_Integer and type(g.lhs).__name__ in QUOTIENTS}
    met: dict[Any, tuple[int, set[int]]] = {}  # of a symbol: a period, and the remainders by it that are left
    for of in dict.fromkeys(e for g in guards if isinstance(g, Eq) and _quotients(g) for e in _zeros(g, known, env)):
        (s,) = of.free_symbols
        period = lcm(*(int(q.args[1]) for q in _quotients(of)))
        before, left = met.get(s, (1, {0}))
        whole = lcm(before, period)
        if whole <= PERIOD:
            here = {r for r in range(period) if of.xreplace({s: Integer(r + period)}) == 0}
            met[s] = whole, {r for r in range(whole) if r % before in left and r % period in here}
    return {s: gcd(period, *left) for s, (period, left) in met.items() if left}


def _zeros(equation: Any, known: Mapping[Any, Any], env: Any) -> list[Any]:
    """The factor of an equation's difference that has quotients, where it is a sum of multiples of one symbol and of quotients of such
    sums by numbers that repeats with their common multiple. `known`: quotients that are numbers. Other factors are no 0."""
    from sympy import Function

    factors = (equation.lhs - equation.rhs).xreplace(known).factor().as_ordered_factors()
    quotients = [f for f in factors if f.atoms(Function)]
    if len(quotients) != 1 or not all(f.is_number or env.bound_sympy(f).lower > 0 for f in factors if f != quotients[0]):
        return []
    (of,), found = quotients, _quotients(quotients[0])
    if len(of.free_symbols) != 1 or len(found) != len(of.atoms(Function)):
        return []
    (s,) = of.free_symbols
    line = lambda e, *of: e.is_polynomial(*of) and all(sum(m) <= 1 for m in e.as_poly(*of).monoms())
    if not line(of, s, *found) or not all(q.args[1].is_Integer and 1 < q.args[1] <= PERIOD and line(q.args[0], s) for q in found):
        return []
    slope = of.xreplace({q: q.args[0] / q.args[1] if "Div" in type(q).__name__ else s * 0 for q in found}).diff(s)
    return [of] if slope == 0 else []


def _quotients(expr: Any) -> list[Any]:
    from sympy import Function

    return [e for e in expr.atoms(Function) if type(e).__name__ in QUOTIENTS]


def same_as(symbol: Any, env: Any) -> tuple[Any, ...]:
    """The symbols that are one by torch's guards, first the one that stands for all: s of two inputs that were joined and are 2*s long."""
    read, classes = _SAME.get(env, (-1, {}))
    if read != len(env.guards):
        _SAME[env] = len(env.guards), (classes := _classes([g.expr for g in env.guards], env))
    return classes.get(symbol, (symbol,))


_SAME: WeakKeyDictionary[Any, tuple[int, dict[Any, tuple[Any, ...]]]] = WeakKeyDictionary()  # how many guards were read, and what they say


def _classes(guards: list[Any], env: Any) -> dict[Any, tuple[Any, ...]]:
    """Of equations k*s = k*t of two symbols, given those before: the symbols that are one, of each."""
    from sympy import Eq, Function

    classes: dict[Any, tuple[Any, ...]] = {}
    for g in guards:
        if not isinstance(g, Eq) or g.lhs.atoms(Function) or g.rhs.atoms(Function):
            continue
        apart = (g.lhs - g.rhs).xreplace({s: c[0] for s, c in classes.items()}).expand()
        if len(apart.free_symbols) == 2:
            s, t = sorted(apart.free_symbols, key=str)
            k, known = apart.coeff(s, 1), not any(map(env.is_unbacked_symint, (s, t)))
            if known and k.is_number and apart == (k * (s - t)).expand():
                joined = (*classes.get(s, (s,)), *classes.get(t, (t,)))
                classes |= dict.fromkeys(joined, joined)
    return classes


def least_of(symbol: Any, env: Any) -> int:
    """The least size that torch's guards of a symbol alone let a call have: 5 where 4*((s + 3)//4) >= 8. Of the first LOOKED ones, those
    that are let through behind one that is are not looked at."""
    from sympy import Integer, false

    low = int(env.var_to_range[symbol].lower)
    guards = [g.expr for g in env.guards if g.expr.free_symbols == {symbol}]
    return next((n for n in range(low, low + LOOKED) if not any(g.xreplace({symbol: Integer(n)}) == false for g in guards)), low)


def guarded(x: Any, whole: bool = True) -> Any:
    """torch's expression of a size, with its quotients as what tracing asked of them: where n that was halved and doubled is joined with n,
    it is even, and `2*(n//2)` is n; where `n//2` is added to 4 elements, it is 4. `whole`: only where no fraction of a symbol is left."""
    expr, env = x.node.expr, x.node.shape_env
    if expr.is_number or not env.guards:
        return expr
    expr = expr.xreplace(_numbers(env))
    if expr.is_number or expr.is_symbol:
        return expr
    known = _GUARDED.setdefault(env, {})
    if expr not in known:
        exact = _exact(expr, env)
        known[expr] = expr if exact == expr.expand() else exact  # a product of sums stays one
    found = known[expr]
    return expr if whole and any(n.is_Rational and not n.is_Integer for n in found.atoms()) else found


_GUARDED: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()  # of torch's environments of symbols


def _numbers(env: Any) -> dict[Any, Any]:
    """Symbols of which torch's guards leave one value: 6 for n where `n - (n + 1)//2` and `(n + 1)//2` are 3. Products that are a number:
    8*(n//8)**2 elements of an image that a linear layer reads as 72."""
    from sympy import Eq

    read, known = _NUMBERS.get(env, (0, {}))
    for guard in env.guards[read:]:
        e = guard.expr
        if not isinstance(e, Eq) or not e.rhs.is_number:
            continue
        if e.lhs.is_Mul or e.lhs.is_Pow:
            known[e.lhs] = e.rhs
        if len(e.lhs.free_symbols) != 1 or e.lhs.is_symbol:
            continue
        (s,) = e.lhs.free_symbols
        whole = whole_quotient(*e.lhs.args) if type(e.lhs).__name__ in ("FloorDiv", "CleanDiv") else None  # s for `s**2 // s`
        of = (_exact(e.lhs, env) if whole is None else whole).expand()
        times, more = of.coeff(s, 1), of.coeff(s, 0)
        value = env.backed_var_to_val.get(s)
        line = times.is_number and times != 0 and more.is_number and of == times * s + more
        if line and value is not None and times * value + more == e.rhs:
            known[s] = value
    _NUMBERS[env] = len(env.guards), known
    return known


_NUMBERS: WeakKeyDictionary[Any, tuple[int, dict[Any, Any]]] = WeakKeyDictionary()  # how many guards were read, and what they say


def _exact(expr: Any, env: Any) -> Any:
    from sympy import Eq, Integer, Mod

    if type(expr).__name__ not in ("FloorDiv", "CleanDiv"):
        return expr.func(*(_exact(e, env) for e in expr.args)).expand() if expr.args else expr
    of, by = (_exact(e, env) for e in expr.args)
    hint = expr.xreplace(env.backed_var_to_val)
    holds = lambda said: env._maybe_evaluate_static(said) == True  # noqa: E712  (one of sympy's)
    if hint.is_Integer and holds(Eq(expr, hint)):
        return Integer(hint)
    whole = whole_quotient(of, by) if not of.atoms(type(expr)) and not by.atoms(type(expr)) else None
    if whole is not None and all(n.is_Integer or not n.is_number for n in whole.atoms()):
        return whole
    even = by.is_Integer and (holds(Eq(Mod(expr.args[0], by), 0)) or holds(Eq(by * expr, expr.args[0])))
    return of / by if even else expr.func(of, by)


def whole_quotient(of: Any, by: Any) -> Any:
    """The quotient of products of sizes, and of their rounded quotients, that is none when it is cancelled: h for `(h*w) // w`. None on
    others."""
    from sympy import Dummy, Function, cancel, fraction

    of, by = _divided(of), _divided(by)
    inner = {f: Dummy(positive=True, integer=True) for f in of.atoms(Function) | by.atoms(Function)}
    of, by = of.xreplace(inner), by.xreplace(inner)
    if of.atoms(Function) or by.atoms(Function):
        return None
    above, below = fraction(cancel(of / by))
    return above.expand().xreplace({d: f for f, d in inner.items()}) if below == 1 else None


def _divided(expr: Any) -> Any:
    """An expression with those quotients taken in it that are whole or rounded alike for all sizes: s - 1 for `(2*s - 1) // 2`."""
    from sympy import Add

    if type(expr).__name__ not in ("FloorDiv", "CleanDiv"):
        return expr.func(*map(_divided, expr.args)).expand() if expr.args else expr
    of, by = map(_divided, expr.args)
    if not by.is_Integer:
        whole = whole_quotient(of, by)
        return expr.func(of, by) if whole is None else whole
    terms = Add.make_args(of.expand()) if by > 0 else ()
    even = sum(t for t in terms if t.is_polynomial() and t.as_coeff_Mul()[0] % by == 0)
    rest = (of - even).expand()
    return (even / by + rest // by).expand() if terms and rest.is_Integer else expr.func(of, by)
