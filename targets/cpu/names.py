"""Names that may reach C source: letters, digits and underscores only, no word of the language, none that a header declares."""

from __future__ import annotations

import re

_RESERVED = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "main",
        "vf",
        "vi",
        "vm",
        "asm",
        "typeof",
        "linux",
        "unix",
        "near",
        "far",
        "bool",
        "true",
        "false",
        "NULL",
        "I",
        "errno",
        "stdin",
        "stdout",
        "stderr",
        "lanes",
        "scratch",
        "sizes",
        "lane",
        "y0",
        "y1",
        "yn",
        "j0",
        "j1",
        "jn",
        "index",
        "div",
        "abs",
    ]
)
_CPP = (  # noqa: SIM905
    "alignas alignof and and_eq asm bitand bitor catch char8_t char16_t char32_t class compl concept consteval constexpr constinit "
    "const_cast co_await co_return co_yield decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public reinterpret_cast requires static_assert static_cast template this "
    "thread_local throw try typeid typename using virtual wchar_t xor xor_eq"
).split()
_DEVICE = (  # noqa: SIM905  # functions of CUDA's runtime headers, in C or in every translation unit
    "min max umin umax llmin llmax ullmin ullmax rsqrt rcbrt sinpi cospi tanpi sincospi erfinv erfcinv erfcx normcdf normcdfinv "
    "norm rnorm norm3d rnorm3d norm4d rnorm4d rhypot cyl_bessel_i0 cyl_bessel_i1 saturate clock clock64 printf assert malloc free "
    "memcpy memset half half2 dim3 uint ushort ulong"
).split()
_MATH = (  # noqa: SIM905
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma fmax "
    "fmin fmod frexp gamma hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint "
    "nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma trunc "
    "isnan isinf isfinite isnormal signbit fpclassify"
).split()
_LIBRARY = frozenset(f + suffix for f in (*_MATH, *_DEVICE) for suffix in ("", "f", "l"))  # math.h declares them in each precision
_WORDS = _RESERVED | _LIBRARY | frozenset(_CPP)
_HEADERS = ("ac_", "AC_", "k_", "s_", "vf_", "vi_", "vm_", "omp_")  # begin what our headers and printed functions are called


def entry_name(text: str) -> str:
    """The name of a kernel's function: `k_` begins no word of a language and nothing that a header declares, whatever it includes."""
    return "k_" + re.sub(r"[^0-9A-Za-z_]", "_", text)


def c_name(text: str) -> str:
    """A C identifier for any text: 'layer.0/x' -> 'layer_0_x'. Distinct texts may collide; see `Names`."""
    out = re.sub(r"[^0-9A-Za-z_]", "_", text)[:60]
    if not out or out[0].isdigit() or out[0] == "_" or out in _WORDS or out.startswith(_HEADERS):
        out = "n_" + out
    return out


class Names:
    """Hands out distinct identifiers; the same text always gets the same one."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._used: set[str] = set()

    def copy(self) -> Names:
        """The same names so far; what either hands out later is its own."""
        twin = Names()
        twin._of, twin._used = dict(self._of), set(self._used)
        return twin

    def of(self, text: str) -> str:
        """The identifier of `text`."""
        if text not in self._of:
            name = base = c_name(text)
            n = 1
            while name in self._used:
                n += 1
                name = f"{base}_{n}"
            self._used.add(name)
            self._of[text] = name
        return self._of[text]

    def call(self, text: str, name: str) -> str:
        """Give `text` another identifier; the one that it had."""
        before = self.of(text)
        self._of[text] = name
        return before

    def fresh(self, base: str) -> str:
        """A new identifier that starts with `base`."""
        name = base = c_name(base)
        n = 1
        while name in self._used:
            n += 1
            name = f"{base}{n}"
        self._used.add(name)
        return name
