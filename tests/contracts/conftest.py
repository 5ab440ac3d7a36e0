"""Sources of packages that cannot be imported here."""

from tests.contracts.te_source import te_source

__all__ = ["te_source"]
