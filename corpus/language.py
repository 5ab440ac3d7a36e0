"""The language of a page: the detector of py3langid, whose model of 97 languages lies in its package.

It counts byte n-grams, so it needs no network and no letters of one script; TeX and code count as what they look like.
"""

import warnings
from functools import cache
from typing import Any

READ_CHARACTERS = 2000  # the start of a page says enough: a millisecond on one core
LEAST_CONFIDENCE = 0.5
UNKNOWN = "und"  # ISO 639-2: undetermined


def language_of(text: str) -> str:
    """Two-letter code (ISO 639-1), or `und` when no language has half of the probability."""
    language, confidence = _detector().classify(text[:READ_CHARACTERS])
    return str(language) if confidence >= LEAST_CONFIDENCE else UNKNOWN


@cache
def _detector() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
