"""The base of all sections of the profile.

The one module of this package that imports pydantic: nothing else here may import it, or every `--help` would pay.
"""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the profile: unknown keys are errors, numbers are finite, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
