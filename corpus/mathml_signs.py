"""What the characters and accents of MathML are called in TeX."""

GREEK = {
    chr(code): "\\" + name
    for start, names in (
        (
            0x3B1,
            "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi . pi rho varsigma sigma tau",
        ),
        (0x3C5, "upsilon varphi chi psi omega"),
        (0x393, "Gamma Delta . . . Theta . . Lambda . . Xi . Pi . . Sigma . Upsilon Phi . Psi Omega"),
    )
    for code, name in enumerate(names.split(), start)
    if name != "."
}
SIGNS = {
    symbol: "\\" + name
    for pair in """
    ϵ epsilon;ϑ vartheta;ϕ phi;ϖ varpi;ϱ varrho;ℓ ell;ℏ hbar;ℑ Im;ℜ Re;℘ wp;ℵ aleph;∂ partial;∇ nabla;∞ infty;∅ emptyset
    ∀ forall;∃ exists;∄ nexists;¬ neg;∠ angle;⊤ top;⊥ bot;□ square;△ triangle;⋄ diamond;★ star;† dagger;‡ ddagger;° circ
    ∑ sum;∏ prod;∐ coprod;∫ int;∬ iint;∭ iiint;∮ oint;⋃ bigcup;⋂ bigcap;⨁ bigoplus;⨂ bigotimes;⋁ bigvee;⋀ bigwedge
    ± pm;∓ mp;× times;÷ div;⋅ cdot;· cdot;∗ ast;∘ circ;∙ bullet;• bullet;⊕ oplus;⊖ ominus;⊗ otimes;⊙ odot;∧ wedge;∨ vee
    ∪ cup;∩ cap;∖ setminus;⊎ uplus;⋉ ltimes;⋊ rtimes;≤ leq;≥ geq;⩽ leqslant;⩾ geqslant;≪ ll;≫ gg;≠ neq;≡ equiv;∼ sim
    ≃ simeq;≈ approx;≅ cong;∝ propto;≺ prec;≻ succ;⪯ preceq;⪰ succeq;⊂ subset;⊃ supset;⊆ subseteq;⊇ supseteq
    ⊊ subsetneq;∈ in;∉ notin;∋ ni;∤ nmid;∥ |;∦ nparallel;⊢ vdash;⊨ models;≜ triangleq;≐ doteq;⊲ triangleleft
    → to;← leftarrow;↔ leftrightarrow;⇒ Rightarrow;⇐ Leftarrow;⇔ Leftrightarrow;↦ mapsto
    ↪ hookrightarrow;↠ twoheadrightarrow
    ⟶ longrightarrow;⟵ longleftarrow;⟹ Longrightarrow;⟸ Longleftarrow;⟺ iff;⟼ longmapsto;↑ uparrow;↓ downarrow
    ⇀ rightharpoonup;⇌ rightleftharpoons;↗ nearrow;↘ searrow;⇝ rightsquigarrow;… ldots;⋯ cdots;⋮ vdots;⋱ ddots
    ⟨ langle;⟩ rangle;〈 langle;〉 rangle;⌈ lceil;⌉ rceil;⌊ lfloor;⌋ rfloor;‖ |;
    """.replace("\n", ";").split(";")
    if (words := pair.split())
    for symbol, name in [words]
} | {
    "∣": "|", "−": "-", "–": "-", "′": "'", "″": "''", "‴": "'''", "∕": "/", "⁄": "/", "∶": ":", "≔": ":=",
    "{": r"\{", "}": r"\}", "#": r"\#", "%": r"\%", "&": r"\&", "$": r"\$", "_": r"\_", "\\": r"\backslash",
    "\xa0": " ", "\u2061": "", "\u2062": "", "\u2063": "", "\u2064": "", "\u200b": "", "\u2009": "", "\u200a": "",
}  # fmt: skip
# What has a command of its own name
FUNCTIONS = frozenset(
    """arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf limsup ln log max
    min Pr sec sin sinh sup tan tanh""".split()  # noqa: SIM905
)
ALPHABETS = {
    "DOUBLE-STRUCK": r"\mathbb{%s}",
    "FRAKTUR": r"\mathfrak{%s}",
    "BLACK-LETTER": r"\mathfrak{%s}",
    "SCRIPT": r"\mathcal{%s}",
    "SANS-SERIF": r"\mathsf{%s}",
    "MONOSPACE": r"\mathtt{%s}",
    "BOLD": r"\mathbf{%s}",
}
OVER = {
    "^": "hat", "ˆ": "hat", "~": "tilde", "˜": "tilde", "∼": "tilde", "¯": "bar", "ˉ": "bar", "‾": "overline",
    "―": "overline", "_": "overline", "→": "vec", "⃗": "vec", "˙": "dot", ".": "dot", "¨": "ddot", "ˇ": "check",
    "˘": "breve", "⏞": "overbrace", "︷": "overbrace",
}  # fmt: skip
UNDER = dict.fromkeys("_‾¯―̲", "underline") | dict.fromkeys("⏟︸", "underbrace")
WIDE = {"hat": "widehat", "tilde": "widetilde", "bar": "overline", "vec": "overrightarrow"}
# What takes limits over and under itself; everything else gets a label there.
_BIG = "sum prod coprod int iint iiint oint big lim max min sup inf det gcd Pr operatorname overbrace underbrace"
LIMITS = tuple(f"{brace}\\{name}" for brace in ("", "{") for name in _BIG.split())
